"""Caches the model's view of a conversation, so that each request processes only new messages."""

from collections.abc import Set
from dataclasses import field, replace

from ebbtide.agent.messages import Assistant, Conversation, Message, User, extend_tuple
from ebbtide.agent.prompt.build import Instructions, Prompt, assemble_prompt, merge_user_messages, with_supported_parts
from ebbtide.agent.tokens.incremental import IncrementalFold, is_prefix
from ebbtide.agent.view.visible import summary_messages, visible_messages
from ebbtide.tools.lazy import dataclass


@dataclass(slots=True)
class ViewCache:
    """One session's view, kept between requests. It is rebuilt if masks, replacements or the summary change."""

    _messages: tuple[Message, ...] = ()
    """Messages of the conversation for which the view was last computed."""
    _view_key: tuple[object, ...] = ()
    """Other inputs from which the view was computed. If they change, the view is rebuilt."""
    _visible_messages: tuple[Message, ...] = ()
    _merged_source: tuple[Message, ...] = ()
    """Visible messages that `_merged_messages` already contains."""
    _summary_key: tuple[object, ...] = ()
    """Inputs that determined the beginning of the last prompt."""
    _merged_messages: tuple[Message, ...] = ()
    _call_ids: IncrementalFold[set[str], Message] = field(default_factory=lambda: IncrementalFold(set, _add_call_ids))
    _output_count: IncrementalFold[int, Message] = field(default_factory=lambda: IncrementalFold(int, _with_outputs))

    _last_user_text: IncrementalFold[str, Message] = field(
        default_factory=lambda: IncrementalFold(str, _newest_user_text)
    )

    def visible_messages(self, conversation: Conversation) -> tuple[Message, ...]:
        """Return the messages as the model sees them, like the function `visible_messages`."""
        if not conversation.masked and not conversation.retold:
            return conversation.messages
        view_key = (
            conversation.masked, conversation.retold, conversation.outputs_before, conversation.messages_before,
        )  # fmt: skip
        messages = conversation.messages
        if self._view_key != view_key or not is_prefix(self._messages, messages):
            self._visible_messages = visible_messages(conversation)
        elif len(messages) > len(self._messages):
            self._visible_messages = extend_tuple(
                self._visible_messages, *self._new_messages(conversation, len(self._messages))
            )
        self._messages, self._view_key = messages, view_key
        return self._visible_messages

    def _new_messages(self, conversation: Conversation, known_count: int) -> tuple[Message, ...]:
        """Return the visible form of the messages after the first `known_count`. A reply directly before them is also
        processed, because it contains the calls that those messages answer."""
        start = (
            known_count - 1
            if known_count and isinstance(conversation.messages[known_count - 1], Assistant)
            else known_count
        )
        earlier_output_count = self._output_count.value_for(self._messages)
        recent_part = replace(
            conversation,
            messages=conversation.messages[start:],
            outputs_before=conversation.outputs_before + earlier_output_count,
            messages_before=conversation.messages_before + start,
        )
        return visible_messages(recent_part)[known_count - start :]

    def build_prompt(
        self, conversation: Conversation, instructions: Instructions, *, supports_images: bool = True
    ) -> Prompt:
        """Build the system prompt and messages of the next request, like the function `build_prompt`."""
        visible, summary_key = self.visible_messages(conversation), (conversation.summary, supports_images)
        if self._summary_key != summary_key or not is_prefix(self._merged_source, visible):
            self._merged_messages = merge_user_messages(
                with_supported_parts(summary_messages(conversation.summary), supports_images=supports_images)
            )
            self._merged_source, self._summary_key = (), summary_key
        new_messages = merge_user_messages(
            with_supported_parts(visible[len(self._merged_source) :], supports_images=supports_images)
        )
        # At most the last known message and the first new one need merging. All others stay the same objects.
        merged_pair = merge_user_messages((*self._merged_messages[-1:], *new_messages[:1]))
        if new_messages and len(merged_pair) == 1:
            self._merged_messages, new_messages = self._merged_messages[:-1], (*merged_pair, *new_messages[1:])
        self._merged_messages = extend_tuple(self._merged_messages, *new_messages)
        self._merged_source = visible
        return assemble_prompt(self._merged_messages, instructions)

    def count_outputs(self, conversation: Conversation) -> int:
        """Return the number of outputs in the session."""
        return conversation.outputs_before + self._output_count.value_for(conversation.messages)

    def last_user_text(self, conversation: Conversation) -> str:
        """Return the user's last text; empty if no message contains one."""
        return self._last_user_text.value_for(conversation.messages)

    def call_ids(self, conversation: Conversation) -> Set[str]:
        """Return the ids of all calls in the conversation."""
        return self._call_ids.value_for(conversation.messages)


def _add_call_ids(ids: set[str], message: Message) -> set[str]:
    if isinstance(message, Assistant):
        ids.update(call.id for call in message.calls)
    return ids


def _newest_user_text(previous_text: str, message: Message) -> str:
    return (message.text or previous_text) if isinstance(message, User) else previous_text


def _with_outputs(count: int, message: Message) -> int:
    return count + (len(message.outputs) if isinstance(message, User) else 0)
