"""The conversation as the model sees it: steps and turns, numbered outputs, masked and shortened messages, and the
messages at the start of a compacted view."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

from ebbtide.agent.messages import (
    USER_CALL_PREFIX,
    Assistant,
    CarriedPart,
    Conversation,
    Image,
    Message,
    Note,
    ShortenedPart,
    Summary,
    Text,
    ToolCall,
    ToolOutput,
    User,
    UserPart,
)
from ebbtide.agent.tokens.incremental import memoized
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.long_replies import with_shortened_text
from ebbtide.agent.view.message_text import is_steering_message
from ebbtide.agent.view.stub_identifiers import LazyNameLists, StubNameLists
from ebbtide.agent.view.stubs import outcome_line
from ebbtide.tools.lazy import dataclass


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the indices at which turns begin. A turn begins at a user message with text or images, unless the message
    directly follows another one or was sent during a turn."""
    return [
        index
        for index, message in enumerate(messages)
        if is_request(message) and not is_steering_message(message) and not (index and is_request(messages[index - 1]))
    ]


def open_request_messages(messages: Sequence[Message]) -> Iterator[tuple[int, User]]:
    """Yield the user's messages that have not been answered yet, with their indices."""
    if messages and is_answer(messages[-1]):
        return
    starts = turn_starts(messages)
    is_opening = bool(starts)
    for index in range(starts[-1] if starts else 0, len(messages)):
        message = messages[index]
        is_opening = is_opening and is_request(message)
        if isinstance(message, User) and (is_opening or is_steering_message(message)):
            yield index, message


def is_answer(message: Message) -> bool:
    """Whether the message ends a turn: it has text and no calls."""
    if not isinstance(message, Assistant) or message.is_paused:
        return False
    return not message.calls and isinstance(message.parts[-1], Text)


def is_request(message: Message) -> bool:
    """Whether the message contains text or images from the user, not only outputs or notes."""
    return isinstance(message, User) and any(isinstance(part, Text | Image) for part in message.parts)


def starts_step(message: Message) -> bool:
    """Whether a view can begin with this message. It cannot begin with outputs, because their calls would be
    missing."""
    return isinstance(message, Assistant) or is_request(message)


def first_unseen_index(messages: Sequence[Message]) -> int:
    """Return the index of the first call whose outputs the model has not seen yet. The call is in the model's last
    reply, or is a command that the user ran later. If there is no such call, return the number of messages."""
    first = len(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, Assistant):
            first = index if message.calls else first
            if not is_user_command(message):
                break
    return first


def is_user_command(message: Assistant) -> bool:
    """Whether the message records a command that the user ran, instead of a reply from the model."""
    return bool(message.calls) and all(call.id.startswith(USER_CALL_PREFIX) for call in message.calls)


SHORT_NOTE_CHARS = 400
"""Notes up to this length, in characters, are kept when their message is replaced."""


@dataclass(frozen=True, slots=True)
class NumberedOutput:
    """An output with its number in the session, and the call that produced it."""

    call: ToolCall
    output: ToolOutput
    number: int
    name_lists: LazyNameLists | None = field(default=None, compare=False, repr=False)
    """Lazily built name lists for all stubs in the view; this output's list is at `index_in_view`. None if the stub
    does not depend on other outputs."""
    index_in_view: int = field(default=0, compare=False, repr=False)

    @property
    def ref(self) -> str:
        return f"r{self.number}"

    @property
    def stub_names(self) -> str:
        """The names listed in the output's stub."""
        return (
            StubNameLists().suffix_for(self.output)
            if self.name_lists is None
            else self.name_lists.suffix_at(self.index_in_view)
        )


@memoized
def numbered_outputs(conversation: Conversation) -> tuple[NumberedOutput, ...]:
    """Return all outputs of the conversation in call order, with their numbers in the session, from 1."""
    return tuple(_iter_numbered(conversation.messages, conversation.outputs_before))


def count_outputs(conversation: Conversation) -> int:
    """Return the number of outputs in the session."""
    return conversation.outputs_before + sum(
        len(message.outputs) for message in conversation.messages if isinstance(message, User)
    )


def _iter_numbered(messages: tuple[Message, ...], output_count: int) -> Iterator[NumberedOutput]:
    calls: Mapping[str, ToolCall] = {}
    outputs = list[ToolOutput]()
    identifiers = LazyNameLists(outputs)
    for message in messages:
        if isinstance(message, Assistant):
            calls = {call.id: call for call in message.calls}
            continue
        for output in message.outputs:
            output_count += 1
            call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
            outputs.append(output)
            yield NumberedOutput(executed_call(call, output), output, output_count, identifiers, len(outputs) - 1)


@memoized
def visible_messages(conversation: Conversation) -> tuple[Message, ...]:
    """Return the messages as the model sees them, with masked outputs and shortened text."""
    if not conversation.masked and not conversation.retold:
        return conversation.messages
    replacements = {shortened.key: shortened for shortened in conversation.retold}
    shortened_outputs = {
        id(numbered.output): output
        for numbered in numbered_outputs(conversation)
        if (output := visible_output(numbered, conversation.masked, replacements)) is not numbered.output
    }

    def visible_part(part: UserPart) -> UserPart:
        return shortened_outputs.get(id(part), part) if isinstance(part, ToolOutput) else part

    def visible_message(position: int, message: Message) -> Message:
        replacement = replacements.get(message_key(position))
        if not isinstance(message, User):
            return with_shortened_text(message, replacement)
        if replacement is None and not any(id(output) in shortened_outputs for output in message.outputs):
            return message  # keep the same object, so that values cached for it stay valid
        parts = message.parts if replacement is None else _with_replaced_text(message, replacement.text)
        return User(tuple(visible_part(part) for part in parts))

    return tuple(
        visible_message(position, message)
        for position, message in enumerate(conversation.messages, conversation.messages_before)
    )


def messages_in_view(conversation: Conversation) -> tuple[Message, ...]:
    """Return all messages that the model sees, including those that open a compacted view."""
    return (*summary_messages(conversation.summary), *visible_messages(conversation))


def visible_output(
    numbered: NumberedOutput, masked_call_ids: AbstractSet[str], replacements: Mapping[str, ShortenedPart]
) -> ToolOutput:
    """Return the output as the model sees it. If it is shown in full, return the same object. `replacements`: shortened
    forms, by key."""
    if numbered.output.call_id in masked_call_ids:
        return replace(numbered.output, text=output_stub(numbered), images=())
    shortened = replacements.get(numbered.ref)
    return (
        numbered.output
        if shortened is None
        else replace(numbered.output, text=shortened.text, images=numbered.output.images[: shortened.pictures])
    )


def _with_replaced_text(message: User, replacement: str) -> tuple[UserPart, ...]:
    """Return the parts of a message with all its long text replaced by `replacement`."""
    parts, is_replaced = list[UserPart](), False
    for part in message.parts:
        if not is_replaceable(part):
            parts.append(part)
        elif not is_replaced:
            parts.append(Text(replacement) if isinstance(part, Text) else Note(replacement))
            is_replaced = True
    return tuple(parts)


def is_replaceable(part: UserPart) -> bool:
    """Whether a stub can replace the part: user text, or a long note from the program. Short notes report changes and
    must stay."""
    return isinstance(part, Text) or (isinstance(part, Note) and len(part.text) > SHORT_NOTE_CHARS)


def message_key(position: int) -> str:
    """Return a message's key, built from its position in the session's log."""
    return f"m{position}"


def newest_reply_index(messages: Sequence[Message]) -> int:
    """Return the index of the model's last reply; 0 if there is none."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, Assistant) and not is_user_command(message):
            return index
    return 0


def output_stub(numbered: NumberedOutput) -> str:
    """Return the stub of a masked output: what the call did, and the names in its output."""
    return outcome_with_ref(numbered) + numbered.stub_names


def outcome_with_ref(numbered: NumberedOutput) -> str:
    """Describe an output in one line, with its reference."""
    return f"{' '.join(outcome_line(numbered.call, numbered.output).split())} [recall:{numbered.ref}]"


SUMMARY_PREAMBLE = (
    "The earlier part of this session was compacted; the summary below replaces it. Do not redo work that it marks as "
    "done; finish work that it marks as open. Continue from here with your tools, as before. Read a file again before "
    "you rely on its exact text. `recall` returns the full content behind a reference such as [r12] or msg-1a2b3c4d."
)
RETAIN_HEADING, SUMMARY_HEADING = "## Kept word for word", "## Summary of the work so far"
LEDGER_HEADING, REQUEST_HEADING = "## Facts on record", "## The request you are working on, unchanged"
PINNED_HEADING = "## Pinned by the user, unchanged"
CARRIED_HEADING = "## Files and search results as you last saw them"
NAMES_HEADING = "## Outputs that are no longer shown, with names in them"

EMPTY_SUMMARY_TEXT = "There was no room for more than this line."
"""Replaces the summary when there is no room for even the shortest one."""


def summary_messages(summary: Summary) -> tuple[User, ...]:
    """Return the messages that open a compacted view. Empty if nothing was compacted."""
    if not summary:
        return ()
    parts = [SUMMARY_PREAMBLE]
    for heading, text in (
        (RETAIN_HEADING, summary.retain),
        (SUMMARY_HEADING, summary.summary),
        (LEDGER_HEADING, summary.ledger),
    ):
        if text:
            parts.append(f"{heading}\n{text}")
    opening: tuple[UserPart, ...] = (
        *(Text(part) for part in parts),
        *_headed_parts(PINNED_HEADING, summary.pinned),
        *_headed_parts(CARRIED_HEADING, summary.carried),
    )
    if summary.names:
        opening = (*opening, Text(f"{NAMES_HEADING}\n{summary.names}"))
    if summary.request.parts:
        opening = (*opening, Text(REQUEST_HEADING), *summary.request.parts)
    return (User(opening),)


def non_empty_summary(summary: Summary, removed_count: int) -> Summary:
    """Return the summary, or a minimal summary if it is empty although `removed_count` messages were removed.
    Otherwise, the view would begin with a reply, which providers reject."""
    return summary if summary or not removed_count else replace(summary, summary=EMPTY_SUMMARY_TEXT)


def _headed_parts(heading: str, carried: Sequence[CarriedPart]) -> tuple[Text | Image, ...]:
    """Return the carried items under a heading, each with its title, for the message that opens a compacted view."""
    if not carried:
        return ()
    return (Text(heading), *(part for item in carried for part in (Text(f"### {item.title}"), *item.parts)))
