"""The model's view of a conversation, computed once for each message and extended incrementally. Pure."""

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
    """One session's view, kept between requests. It is rebuilt if masks, replacements or the summary change."""

    _messages: tuple[Message, ...] = ()
    """Messages of the conversation last shown."""
    _rewrites: tuple[object, ...] = ()
    """Other inputs that determined how they were shown."""
    _visible: tuple[Message, ...] = ()
    _prompted: tuple[Message, ...] = ()
    """Messages of `_visible` already in `_merged`."""
    _opening: tuple[object, ...] = ()
    """Inputs that determined how the last prompt begins."""
    _merged: tuple[Message, ...] = ()
    _ids: IncrementalFold[set[str], Message] = field(default_factory=lambda: IncrementalFold(set, _with_ids))
    _outputs: IncrementalFold[int, Message] = field(default_factory=lambda: IncrementalFold(int, _with_outputs))

    _last_user_text: IncrementalFold[str, Message] = field(
        default_factory=lambda: IncrementalFold(str, _newest_user_text)
    )

    def messages(self, conversation: Conversation) -> tuple[Message, ...]:
        """Return the messages as the model sees them, the same as `visible_messages`."""
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
        """Return the visible form of the messages after the first `known`. A preceding reply is needed for their
        calls."""
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
        """Return the system prompt and messages of the next request, the same as `build_prompt`."""
        shown, opening = self.messages(conversation), (conversation.summary, images)
        if self._opening != opening or not is_prefix(self._prompted, shown):
            self._merged = merge_users(for_model(summary_messages(conversation.summary), images=images))
            self._prompted, self._opening = (), opening
        more = merge_users(for_model(shown[len(self._prompted) :], images=images))
        # Only the two adjacent messages may have to be merged: all others stay the same objects.
        joined = merge_users((*self._merged[-1:], *more[:1]))
        if more and len(joined) == 1:
            self._merged, more = self._merged[:-1], (*joined, *more[1:])
        self._merged = extend_tuple(self._merged, *more)
        self._prompted = shown
        return put_together(self._merged, instructions)

    def outputs_so_far(self, conversation: Conversation) -> int:
        """Number of outputs in the session."""
        return conversation.outputs_before + self._outputs.of(conversation.messages)

    def last_user_text(self, conversation: Conversation) -> str:
        """Return the user's last text; empty if it is not among the messages."""
        return self._last_user_text.of(conversation.messages)

    def call_ids(self, conversation: Conversation) -> Set[str]:
        """Return the ids of all calls."""
        return self._ids.of(conversation.messages)


def _with_ids(ids: set[str], message: Message) -> set[str]:
    if isinstance(message, Assistant):
        ids.update(call.id for call in message.calls)
    return ids


def _newest_user_text(said: str, message: Message) -> str:
    return (message.text or said) if isinstance(message, User) else said


def _with_outputs(count: int, message: Message) -> int:
    return count + (len(message.outputs) if isinstance(message, User) else 0)
