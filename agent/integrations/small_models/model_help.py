"""Shows a small model the files that it needs, and reminds it of unfinished changes."""

from collections.abc import Callable

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.events.session import Event
from ebbtide.agent.integrations.small_models.first_look import with_first_look
from ebbtide.agent.integrations.small_models.unfinished_task import work_reminder
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.window.session_context import WindowContext


class ModelHelp:
    async def with_first_look(
        self, message: User, runner: CallRunner, window: WindowContext, emit: Callable[[Event], None]
    ) -> User:
        return await with_first_look(message, runner, window, emit)

    def work_reminder(self, conversation: Conversation) -> User | None:
        return work_reminder(conversation)


MODEL_HELP = ModelHelp()
