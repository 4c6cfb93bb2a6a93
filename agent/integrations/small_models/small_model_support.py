"""Shows a small model the files that it needs, and reminds it of unfinished changes."""

from collections.abc import Callable

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.events.session import Event
from ebbtide.agent.integrations.small_models.initial_files import add_initial_files
from ebbtide.agent.integrations.small_models.unfinished_task import unfinished_work_reminder
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.window.session_context import WindowContext


class SmallModelSupport:
    async def add_initial_files(
        self, message: User, runner: CallRunner, window: WindowContext, emit: Callable[[Event], None]
    ) -> User:
        return await add_initial_files(message, runner, window, emit)

    def unfinished_work_reminder(self, conversation: Conversation) -> User | None:
        return unfinished_work_reminder(conversation)


SMALL_MODEL_SUPPORT = SmallModelSupport()
