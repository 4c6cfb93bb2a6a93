"""What the model is shown of a session's conversation, made once for each message and extended with the next. Pure."""

from collections.abc import Set
from dataclasses import field, replace

from agent.context.incremental import Growing, begins
from agent.context.mask import as_shown
from agent.context.prompt import Instructions, Prompt, for_model, merge_users, put_together
from agent.context.summary import shown_summary
from agent.messages import Assistant, Conversation, Message, User, extended
from tools.lazy import dataclass


@dataclass(slots=True)
class View:
    """One session's view, kept from request to request. What is masked, retold or summarised otherwise than the last
    time is derived anew."""

    _messages: tuple[Message, ...] = ()
    """Those of the conversation that were shown last."""
    _rewrites: tuple[object, ...] = ()
    """What else decided how they were shown."""
    _shown: tuple[Message, ...] = ()
    _prompted: tuple[Message, ...] = ()
    """Those of `_shown` that are in `_merged`."""
    _opening: tuple[object, ...] = ()
    """What decided how the messages of the last prompt begin."""
    _merged: tuple[Message, ...] = ()
    _ids: Growing[set[str], Message] = field(default_factory=lambda: Growing(set, _with_ids))
    _outputs: Growing[int, Message] = field(default_factory=lambda: Growing(int, _with_outputs))

    _said: Growing[str, Message] = field(default_factory=lambda: Growing(str, _with_said))

    def shown(self, conversation: Conversation) -> tuple[Message, ...]:
        """The messages as the model sees them, as `as_shown` gives them."""
        if not conversation.masked and not conversation.retold:
            return conversation.messages
        rewrites = (
            conversation.masked, conversation.retold, conversation.outputs_before, conversation.messages_before,
        )  # fmt: skip
        messages = conversation.messages
        if self._rewrites != rewrites or not begins(self._messages, messages):
            self._shown = as_shown(conversation)
        elif len(messages) > len(self._messages):
            self._shown = extended(self._shown, *self._newly_shown(conversation, len(self._messages)))
        self._messages, self._rewrites = messages, rewrites
        return self._shown

    def _newly_shown(self, conversation: Conversation, known: int) -> tuple[Message, ...]:
        """The messages behind the first `known` as they are shown. A reply before them says what their calls were."""
        start = known - 1 if known and isinstance(conversation.messages[known - 1], Assistant) else known
        earlier = self._outputs.of(self._messages)
        newest = replace(
            conversation,
            messages=conversation.messages[start:],
            outputs_before=conversation.outputs_before + earlier,
            messages_before=conversation.messages_before + start,
        )
        return as_shown(newest)[known - start :]

    def prompt(self, conversation: Conversation, instructions: Instructions, *, images: bool = True) -> Prompt:
        """The next request's system text and messages, as `build_prompt` gives them."""
        shown, opening = self.shown(conversation), (conversation.summary, images)
        if self._opening != opening or not begins(self._prompted, shown):
            self._merged = merge_users(for_model(shown_summary(conversation.summary), images=images))
            self._prompted, self._opening = (), opening
        more = merge_users(for_model(shown[len(self._prompted) :], images=images))
        # Only the two that meet can have to be joined: all others stay the objects that they were.
        joined = merge_users((*self._merged[-1:], *more[:1]))
        if more and len(joined) == 1:
            self._merged, more = self._merged[:-1], (*joined, *more[1:])
        self._merged = extended(self._merged, *more)
        self._prompted = shown
        return put_together(self._merged, instructions)

    def outputs_so_far(self, conversation: Conversation) -> int:
        """How many outputs the session has."""
        return conversation.outputs_before + self._outputs.of(conversation.messages)

    def said_last(self, conversation: Conversation) -> str:
        """What the user has said last; empty where that is not among the messages."""
        return self._said.of(conversation.messages)

    def call_ids(self, conversation: Conversation) -> Set[str]:
        """The ids of all calls."""
        return self._ids.of(conversation.messages)


def _with_ids(ids: set[str], message: Message) -> set[str]:
    if isinstance(message, Assistant):
        ids.update(call.id for call in message.calls)
    return ids


def _with_said(said: str, message: Message) -> str:
    return (message.text or said) if isinstance(message, User) else said


def _with_outputs(count: int, message: Message) -> int:
    return count + (len(message.outputs) if isinstance(message, User) else 0)
