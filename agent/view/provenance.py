"""Finds every occurrence of the given text in a session, and determines whether the model still sees it. No I/O."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ebbtide.agent.messages import Assistant, Conversation, Image, Message, Note, Summary, Text, ToolCall, User
from ebbtide.agent.view.items import MessagePart, OutputPart, PinnedPart, view_parts
from ebbtide.agent.view.message_text import message_text
from ebbtide.agent.view.references import OutputRef, SummaryRef, message_ref
from ebbtide.agent.view.stubs import outcome_line
from ebbtide.agent.view.visible import message_key

OccurrenceStatus: TypeAlias = Literal["visible", "masked", "stored", "summarised", "dropped"]
"""What happened to an occurrence. `visible`: the model sees it. `masked`: its output is masked. `stored`: the text
around it is stored, but not shown. `summarised`: a summary replaces it. `dropped`: nothing replaces it."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the text."""

    ref: str
    fate: OccurrenceStatus
    source: str
    """Who said the text, or which call printed it."""
    summary_ref: str = ""
    """The reference of the summary that replaces it; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """All occurrences of the text."""

    occurrences: tuple[Occurrence, ...] = ()
    """The occurrences, oldest first; empty if the text was never seen."""
    unsearched_notes: tuple[str, ...] = ()
    """Sentences about the parts of the session that could not be searched."""


@dataclass(frozen=True, slots=True)
class RemovedMessage:
    """A message that has left the view."""

    position: int
    message: Message
    calls: tuple[ToolCall, ...] = ()
    """The calls whose outputs the message contains."""
    outputs_before: int = 0


@dataclass(frozen=True, slots=True)
class CoveringSummary:
    """A summary of the messages before position `start` that no earlier summary covers."""

    number: int
    start: int
    summary: Summary


def find_occurrences(
    text: str,
    view: Conversation,
    removed_messages: Sequence[RemovedMessage],
    summaries: Sequence[CoveringSummary],
    matching_outputs: Collection[int] = (),
) -> tuple[Occurrence, ...]:
    """Find every occurrence of `text`, in session order, ignoring case. `removed_messages`: messages that have left the
    view and might contain the text. `matching_outputs`: numbers of the outputs whose stored content contains the
    text."""
    needle = text.lower()
    if not needle.strip():
        return ()
    occurrences = [
        occurrence
        for message in removed_messages
        for occurrence in _find_removed_occurrences(needle, message, view.summary, summaries, matching_outputs)
    ]
    if summaries and needle in view.summary.text.lower():
        occurrences.append(Occurrence(str(SummaryRef(summaries[-1].number)), "visible", "the summary in view"))
    return (*occurrences, *_visible_occurrences(needle, view, matching_outputs))


def find_occurrence_of_ref(
    ref: str,
    position: int,
    view: Conversation,
    removed_message: RemovedMessage | None,
    summaries: Sequence[CoveringSummary],
) -> Occurrence | None:
    """Find what happened to the output or message with this reference. None if it is not found. `position`: its
    position in the session's log. `removed_message`: the message, if it has left the view."""
    if removed_message is not None:
        return next(
            (
                occurrence
                for occurrence in _find_removed_occurrences("", removed_message, view.summary, summaries, ())
                if occurrence.ref == ref
            ),
            None,
        )
    index = position - view.messages_before
    parts = (part for part in view_parts(view) if part.message_index == index and not isinstance(part, PinnedPart))
    part = next((part for part in parts if _part_ref(part) == ref), None)
    return (
        None
        if part is None
        else Occurrence(ref, "visible" if part.state == "visible" else _hidden_status(part), _part_description(part))
    )


def _part_ref(part: MessagePart | OutputPart) -> str:
    return part.ref if isinstance(part, OutputPart) else part.message_ref


def _hidden_status(part: MessagePart | OutputPart) -> OccurrenceStatus:
    """Return the status of text that a part contains but does not show."""
    return "masked" if part.state == "masked" and isinstance(part, OutputPart) else "stored"


def _part_description(part: MessagePart | OutputPart) -> str:
    return part.description if isinstance(part, OutputPart) else _speaker(part.original)


def _find_removed_occurrences(
    needle: str,
    removed_message: RemovedMessage,
    summary: Summary,
    summaries: Sequence[CoveringSummary],
    matching_outputs: Collection[int],
) -> Iterator[Occurrence]:
    covering = next((candidate for candidate in summaries if removed_message.position < candidate.start), None)
    summary_ref = "" if covering is None else str(SummaryRef(covering.number))
    fate: OccurrenceStatus = "summarised" if covering is not None and covering.summary.summary else "dropped"
    message = removed_message.message
    pinned_keys, carried_keys = ({part.key for part in parts} for parts in (summary.pinned, summary.carried))
    is_pinned = isinstance(message, User) and _is_part_of_request(message, summary.request)
    is_pinned = is_pinned or message_key(removed_message.position) in pinned_keys
    if _contains(needle, message):
        description = f"{_speaker(message)}, kept word for word" if is_pinned else _speaker(message)
        ref = message_ref(message)
        yield Occurrence(ref, "visible", description) if is_pinned else Occurrence(ref, fate, description, summary_ref)
    if isinstance(message, User):
        calls = {call.id: call for call in removed_message.calls}
        for number, output in enumerate(message.outputs, removed_message.outputs_before + 1):
            if needle in output.text.lower() or number in matching_outputs:
                call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
                ref, description = str(OutputRef(number)), outcome_line(call, output)
                if ref in pinned_keys:
                    yield Occurrence(ref, "visible", f"{description}, pinned")
                elif ref in carried_keys:
                    yield Occurrence(ref, "visible", f"{description}, kept over the summary")
                else:
                    yield Occurrence(ref, fate, description, summary_ref)


def _visible_occurrences(needle: str, view: Conversation, matching_outputs: Collection[int]) -> Iterator[Occurrence]:
    for part in view_parts(view):
        match part:
            case MessagePart(original=original, visible_form=visible):
                is_contained, is_visible = _contains(needle, original), _contains(needle, visible)
            case OutputPart(numbered_output=numbered, visible_form=visible):
                is_visible = needle in visible.text.lower()
                is_contained = (
                    is_visible or numbered.number in matching_outputs or needle in numbered.output.text.lower()
                )
            case PinnedPart():
                continue
        if is_contained:
            fate = "visible" if is_visible else _hidden_status(part)
            yield Occurrence(_part_ref(part), fate, _part_description(part))


def _contains(needle: str, message: Message) -> bool:
    """Whether the message contains `needle`, ignoring its outputs. `needle` must be in lower case."""
    if isinstance(message, Assistant):
        return needle in message_text(message).lower()
    return any(needle in part.text.lower() for part in message.parts if isinstance(part, Text | Note))


def _is_part_of_request(message: User, request: User) -> bool:
    """Whether the request contains all text and images of the message."""
    parts, request_parts = _user_parts(message), _user_parts(request)
    return bool(parts) and all(part in request_parts for part in parts)


def _user_parts(message: User) -> tuple[Text | Image, ...]:
    return tuple(part for part in message.parts if isinstance(part, Text | Image))


def _speaker(message: Message) -> str:
    if isinstance(message, Assistant):
        return "the model said" if message.text or not message.calls else "the model called"
    return "you said" if _user_parts(message) else "the program said"
