"""Interfaces for integrations that support weaker models. They parse calls written as text, add files that a message
refers to, and remind the model of unfinished work."""

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias, cast

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.events.session import Event
from ebbtide.agent.integration_registry import REPLY_READERS, SMALL_MODEL_SUPPORT, load_integration
from ebbtide.agent.messages import Assistant, Conversation, User
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.agent.window.session_context import WindowContext


class ReplyReader(Protocol):
    def parse_calls_in_text(
        self,
        reply: Assistant,
        conversation: Conversation,
        prompt: Prompt,
        offered_tools: Collection[str],
        runner: CallRunner,
    ) -> Assistant:
        """Add the tool calls written in a reply's text."""

    def refuse_mistaken_calls(self, reply: Assistant, conversation: Conversation, runner: CallRunner) -> Assistant:
        """Refuse calls that the model has probably made by mistake."""


class SmallModelSupport(Protocol):
    async def add_initial_files(
        self, message: User, runner: CallRunner, window: WindowContext, emit: Callable[[Event], None], /
    ) -> User:
        """Add content that the model needs to start. Returns the same message if there is nothing to add."""

    def unfinished_work_reminder(self, conversation: Conversation, /) -> User | None:
        """Build a reminder to make the requested change, if the turn's final reply only talks about making it.
        Otherwise None."""


CreateReplyReader: TypeAlias = Callable[[ModelFacts], ReplyReader]


def reply_reader_for(facts: ModelFacts) -> ReplyReader | None:
    """Return the reader for a model; None if its replies need no further parsing."""
    if facts.writes_calls_as_text or facts.is_small:
        for object_path in REPLY_READERS.values():
            return cast(CreateReplyReader, load_integration(object_path))(facts)
    return None


def small_model_support_for(facts: ModelFacts) -> SmallModelSupport | None:
    """Return the support for a small model; None for other models."""
    if facts.is_small:
        for object_path in SMALL_MODEL_SUPPORT.values():
            return cast(SmallModelSupport, load_integration(object_path))
    return None
