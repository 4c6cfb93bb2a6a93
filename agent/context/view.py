"""What the model is shown of a session's conversation, made once for each message and extended with the next. Pure."""

from collections.abc import Set
from dataclasses import field, replace

from ebbtide.agent.context.incremental import IncrementalFold, is_prefix
from ebbtide.agent.context.mask import visible_messages
from ebbtide.agent.context.prompt import Instructions, Prompt, for_model, merge_users, put_together
from ebbtide.agent.context.summary import summary_messages
from ebbtide.agent.messages import Assistant, Conversation, Message, User, extend_tuple
from ebbtide.tools.lazy import dataclass


@dataclass(slots=True)
class View:
    """One session's view, kept from request to request. What is masked, retold or summarised otherwise than the last
    time is derived anew."""

    _messages: tuple[Message, ...] = ()
    """Those of the conversation that were shown last."""
    _rewrites: tuple[object, ...] = ()
    """What else decided how they were shown."""
    _visible: tuple[Message, ...] = ()
    _prompted: tuple[Message, ...] = ()
    """Those of `_visible` that are in `_merged`."""
    _opening: tuple[object, ...] = ()
    """What decided how the messages of the last prompt begin."""
    _merged: tuple[Message, ...] = ()
    _ids: IncrementalFold[set[str], Message] = field(default_factory=lambda: IncrementalFold(set, _with_ids))
    _outputs: IncrementalFold[int, Message] = field(default_factory=lambda: IncrementalFold(int, _with_outputs))

    _last_user_text: IncrementalFold[str, Message] = field(
        default_factory=lambda: IncrementalFold(str, _newest_user_text)
    )

    def messages(self, conversation: Conversation) -> tuple[Message, ...]:
        """The messages as the model sees them, as `visible_messages` gives them."""
        if not conversation.masked and not conversation.retold:
            return conversation.messages
        rewrites = (
            conversation.masked, conversation.retold, conversation.outputs_before, conversation.messages_before,
        )  # fmt: skip
        messages = conversation.messages
        if self._rewrites != rewrites or not is_prefix(self._messages, messages):
            self._visible = visible_messages(conversation)
        elif len(messages) > len(self._messages):
            self._visible = extend_tuple(self._visible, *self._new_messages(conversation, len(self._messages)))
        self._messages, self._rewrites = messages, rewrites
        return self._visible

    def _new_messages(self, conversation: Conversation, known: int) -> tuple[Message, ...]:
        """The messages behind the first `known` as they are shown. A reply before them says what their calls were."""
        start = known - 1 if known and isinstance(conversation.messages[known - 1], Assistant) else known
        earlier = self._outputs.of(self._messages)
        newest = replace(
            conversation,
            messages=conversation.messages[start:],
            outputs_before=conversation.outputs_before + earlier,
            messages_before=conversation.messages_before + start,
        )
        return visible_messages(newest)[known - start :]

    def prompt(self, conversation: Conversation, instructions: Instructions, *, images: bool = True) -> Prompt:
        """The next request's system text and messages, as `build_prompt` gives them."""
        shown, opening = self.messages(conversation), (conversation.summary, images)
        if self._opening != opening or not is_prefix(self._prompted, shown):
            self._merged = merge_users(for_model(summary_messages(conversation.summary), images=images))
            self._prompted, self._opening = (), opening
        more = merge_users(for_model(shown[len(self._prompted) :], images=images))
        # Only the two that meet can have to be joined: all others stay the objects that they were.
        joined = merge_users((*self._merged[-1:], *more[:1]))
        if more and len(joined) == 1:
            self._merged, more = self._merged[:-1], (*joined, *more[1:])
        self._merged = extend_tuple(self._merged, *more)
        self._prompted = shown
        return put_together(self._merged, instructions)

    def outputs_so_far(self, conversation: Conversation) -> int:
        """How many outputs the session has."""
        return conversation.outputs_before + self._outputs.of(conversation.messages)

    def last_user_text(self, conversation: Conversation) -> str:
        """What the user has said last; empty where that is not among the messages."""
        return self._last_user_text.of(conversation.messages)

    def call_ids(self, conversation: Conversation) -> Set[str]:
        """The ids of all calls."""
        return self._ids.of(conversation.messages)


def _with_ids(ids: set[str], message: Message) -> set[str]:
    if isinstance(message, Assistant):
        ids.update(call.id for call in message.calls)
    return ids


def _newest_user_text(said: str, message: Message) -> str:
    return (message.text or said) if isinstance(message, User) else said


def _with_outputs(count: int, message: Message) -> int:
    return count + (len(message.outputs) if isinstance(message, User) else 0)
