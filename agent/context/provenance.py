"""Why the model knows a text or does not: every occurrence of it, and what became of each. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ebbtide.agent.context.mask import message_key, outcome_line
from ebbtide.agent.context.message_text import message_text
from ebbtide.agent.context.references import OutputRef, SummaryRef, message_ref
from ebbtide.agent.context.view_items import MessagePart, OutputPart, PinnedPart, view_parts
from ebbtide.agent.messages import Assistant, Conversation, Image, Message, Note, Summary, Text, ToolCall, User

Fate: TypeAlias = Literal["visible", "masked", "stored", "summarised", "dropped"]
"""The model sees it; the output is masked; only other parts of the output are shown; a summary replaces it; nothing
does."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of a text."""

    ref: str
    fate: Fate
    what: str
    """Who said it, or what the call did."""
    by: str = ""
    """The summary that replaces it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All occurrences of a text."""

    places: tuple[Occurrence, ...] = ()
    """The occurrences, the oldest first. Empty if it was never seen."""
    unsearched: tuple[str, ...] = ()
    """What was not searched, one sentence each."""


@dataclass(frozen=True, slots=True)
class DepartedMessage:
    """A message that has left the view."""

    position: int
    message: Message
    calls: tuple[ToolCall, ...] = ()
    """The calls that it answers."""
    outputs_before: int = 0


@dataclass(frozen=True, slots=True)
class Covering:
    """A summary, and the messages that it covers: those before `start` that no earlier summary covers."""

    number: int
    start: int
    summary: Summary


def places_of(
    wanted: str,
    view: Conversation,
    left: Sequence[DepartedMessage],
    summaries: Sequence[Covering],
    holding: Collection[int] = (),
) -> tuple[Occurrence, ...]:
    """Return every occurrence of `wanted` in session order, ignoring case; empty if it was never seen. `left`: messages
    that left the view and may contain it; `holding`: numbers of outputs with a stored part that contains it."""
    needle = wanted.lower()
    if not needle.strip():
        return ()
    found = [
        place for message in left for place in _departed_occurrences(needle, message, view.summary, summaries, holding)
    ]
    if summaries and needle in view.summary.text.lower():
        found.append(Occurrence(str(SummaryRef(summaries[-1].number)), "visible", "the summary in view"))
    return (*found, *_in_view(needle, view, holding))


def place_named(
    ref: str, position: int, view: Conversation, left: DepartedMessage | None, summaries: Sequence[Covering]
) -> Occurrence | None:
    """Return what became of the output or message with this reference, at `position` of the session's log. `left`: the
    message, if it has left the view."""
    if left is not None:
        return next(
            (place for place in _departed_occurrences("", left, view.summary, summaries, ()) if place.ref == ref), None
        )
    index = position - view.messages_before
    parts = (part for part in view_parts(view) if part.index == index and not isinstance(part, PinnedPart))
    part = next((part for part in parts if _name_of(part) == ref), None)
    return (
        None
        if part is None
        else Occurrence(ref, "visible" if part.state == "visible" else _fate_of_less(part), _what(part))
    )


def _name_of(part: MessagePart | OutputPart) -> str:
    return part.ref if isinstance(part, OutputPart) else part.message_ref


def _fate_of_less(part: MessagePart | OutputPart) -> Fate:
    """Return the fate of a text that the visible form of its part does not contain."""
    return "masked" if part.state == "masked" and isinstance(part, OutputPart) else "stored"


def _what(part: MessagePart | OutputPart) -> str:
    return part.what if isinstance(part, OutputPart) else _who(part.original)


def _departed_occurrences(
    needle: str, left: DepartedMessage, summary: Summary, summaries: Sequence[Covering], holding: Collection[int]
) -> Iterator[Occurrence]:
    covering = next((one for one in summaries if left.position < one.start), None)
    by = "" if covering is None else str(SummaryRef(covering.number))
    fate: Fate = "summarised" if covering is not None and covering.summary.summary else "dropped"
    message = left.message
    pinned, carried = ({one.key for one in ones} for ones in (summary.kept, summary.carried))
    is_kept = isinstance(message, User) and _is_among(message, summary.request)
    is_kept = is_kept or message_key(left.position) in pinned
    if _contains(needle, message):
        what = f"{_who(message)}, kept word for word" if is_kept else _who(message)
        ref = message_ref(message)
        yield Occurrence(ref, "visible", what) if is_kept else Occurrence(ref, fate, what, by)
    if isinstance(message, User):
        calls = {call.id: call for call in left.calls}
        for number, output in enumerate(message.outputs, left.outputs_before + 1):
            if needle in output.text.lower() or number in holding:
                call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
                ref, what = str(OutputRef(number)), outcome_line(call, output)
                if ref in pinned:
                    yield Occurrence(ref, "visible", f"{what}, pinned")
                elif ref in carried:
                    yield Occurrence(ref, "visible", f"{what}, kept as it was read")
                else:
                    yield Occurrence(ref, fate, what, by)


def _in_view(needle: str, view: Conversation, holding: Collection[int]) -> Iterator[Occurrence]:
    for part in view_parts(view):
        match part:
            case MessagePart(original=said, visible=shown):
                is_said, is_seen = _contains(needle, said), _contains(needle, shown)
            case OutputPart(found=found, visible=shown):
                is_seen = needle in shown.text.lower()
                is_said = is_seen or found.number in holding or needle in found.output.text.lower()
            case PinnedPart():
                continue
        if is_said:
            fate = "visible" if is_seen else _fate_of_less(part)
            yield Occurrence(_name_of(part), fate, _what(part))


def _contains(needle: str, message: Message) -> bool:
    """Whether the message itself contains it, apart from its outputs."""
    if isinstance(message, Assistant):
        return needle in message_text(message).lower()
    return any(needle in part.text.lower() for part in message.parts if isinstance(part, Text | Note))


def _is_among(message: User, request: User) -> bool:
    """Whether the request contains everything that the message says."""
    said, kept = _user_parts(message), _user_parts(request)
    return bool(said) and all(part in kept for part in said)


def _user_parts(message: User) -> tuple[Text | Image, ...]:
    return tuple(part for part in message.parts if isinstance(part, Text | Image))


def _who(message: Message) -> str:
    if isinstance(message, Assistant):
        return "the model said" if message.text or not message.calls else "the model called"
    return "you said" if _user_parts(message) else "the program told"
