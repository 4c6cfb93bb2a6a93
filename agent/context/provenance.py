"""Why the model knows a text or does not: for each place where it was said, what has become of it. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agent.context.mask import as_shown, message_key, what_happened
from agent.context.message_text import message_text
from agent.context.references import OutputRef, SummaryRef, message_ref
from agent.messages import Assistant, Conversation, Image, Message, Note, Summary, Text, ToolCall, User

Fate: TypeAlias = Literal["visible", "masked", "stored", "summarised", "dropped"]
"""The model sees it; a line stands for the output; only other parts of the output are shown; a summary stands for it;
nothing does."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a text was said."""

    ref: str
    fate: Fate
    what: str
    """Who said it, or what the call did."""
    by: str = ""
    """The summary that stands for it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Where a text is."""

    places: tuple[Occurrence, ...] = ()
    """Each place where it was said, oldest first. None: it was never seen."""
    told: tuple[str, ...] = ()
    """What was not searched, a sentence each."""


@dataclass(frozen=True, slots=True)
class DepartedMessage:
    """A message that is not in the view any more."""

    position: int
    message: Message
    calls: tuple[ToolCall, ...] = ()
    """Those that it answers."""
    outputs_before: int = 0


@dataclass(frozen=True, slots=True)
class Covering:
    """A summary, and what it stands for: the messages before a position that no earlier one stands for."""

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
    """Every place where the text was said, in the order of the session. None: it was never seen. Capitals make no
    difference. `left`: the messages that may hold it among those that left the view; `holding`: numbers of outputs of
    which some part that no message shows holds it."""
    needle = wanted.lower()
    if not needle.strip():
        return ()
    found = [place for message in left for place in _left(needle, message, view.summary, summaries, holding)]
    if summaries and needle in view.summary.text.lower():
        found.append(Occurrence(str(SummaryRef(summaries[-1].number)), "visible", "the summary in view"))
    return (*found, *_in_view(needle, view, holding))


def place_named(
    ref: str, position: int, view: Conversation, left: DepartedMessage | None, summaries: Sequence[Covering]
) -> Occurrence | None:
    """What has become of the output or message that a reference means, which stands at a position of the session's
    log. `left`: the message, where it is not in the view any more."""
    if left is not None:
        return next((place for place in _left("", left, view.summary, summaries, ()) if place.ref == ref), None)
    index = position - view.messages_before
    place = next((place for place in _in_view("", view, ()) if place.ref == ref), None)
    if place is None or not 0 <= index < len(view.messages):
        return None
    message, shown = view.messages[index], as_shown(view)[index]
    if not isinstance(message, User) or not isinstance(shown, User) or not ref.startswith("r"):
        return place if message.text == shown.text else replace(place, fate="stored")
    for number, (output, seen) in enumerate(zip(message.outputs, shown.outputs, strict=True)):
        if ref == f"r{view.outputs_before + _outputs_in(view.messages[:index]) + number + 1}":
            if output.call_id in view.masked:
                return replace(place, fate="masked")
            is_whole = seen.text == output.text and not output.is_part
            return place if is_whole else replace(place, fate="stored")
    return place


def _outputs_in(messages: Sequence[Message]) -> int:
    return sum(len(message.outputs) for message in messages if isinstance(message, User))


def _left(
    needle: str, left: DepartedMessage, summary: Summary, summaries: Sequence[Covering], holding: Collection[int]
) -> Iterator[Occurrence]:
    covering = next((one for one in summaries if left.position < one.start), None)
    by = "" if covering is None else str(SummaryRef(covering.number))
    fate: Fate = "summarised" if covering is not None and covering.summary.summary else "dropped"
    message = left.message
    pinned = {one.key for one in summary.kept}
    is_kept = isinstance(message, User) and _is_among(message, summary.request)
    is_kept = is_kept or message_key(left.position) in pinned
    if _says(needle, message):
        what = f"{_who(message)}, kept word for word" if is_kept else _who(message)
        ref = message_ref(message)
        yield Occurrence(ref, "visible", what) if is_kept else Occurrence(ref, fate, what, by)
    if isinstance(message, User):
        calls = {call.id: call for call in left.calls}
        for number, output in enumerate(message.outputs, left.outputs_before + 1):
            if needle in output.text.lower() or number in holding:
                call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
                ref, what = str(OutputRef(number)), what_happened(call, output)
                yield (
                    Occurrence(ref, "visible", f"{what}, pinned") if ref in pinned else Occurrence(ref, fate, what, by)
                )


def _in_view(needle: str, view: Conversation, holding: Collection[int]) -> Iterator[Occurrence]:
    number, calls = view.outputs_before, dict[str, ToolCall]()
    for message, shown in zip(view.messages, as_shown(view), strict=True):
        if _says(needle, message):
            fate: Fate = "visible" if _says(needle, shown) else "stored"
            yield Occurrence(message_ref(message), fate, _who(message))
        if isinstance(message, Assistant) or isinstance(shown, Assistant):
            calls = {call.id: call for call in message.calls} if isinstance(message, Assistant) else {}
            continue
        for output, seen in zip(message.outputs, shown.outputs, strict=True):
            number += 1
            call = calls.get(output.call_id, ToolCall(output.call_id, "tool", {}))
            found = _fate_in_view(needle, output.text, seen.text, output.call_id in view.masked, number in holding)
            if found is not None:
                yield Occurrence(str(OutputRef(number)), found, what_happened(call, output))


def _fate_in_view(needle: str, text: str, seen: str, is_masked: bool, is_held: bool) -> Fate | None:
    if needle in seen.lower():
        return "visible"
    if is_masked and (is_held or needle in text.lower()):
        return "masked"
    return "stored" if is_held or needle in text.lower() else None


def _says(needle: str, message: Message) -> bool:
    """Whether the message itself says it: its outputs are places of their own."""
    if isinstance(message, Assistant):
        return needle in message_text(message).lower()
    return any(needle in part.text.lower() for part in message.parts if isinstance(part, Text | Note))


def _is_among(message: User, request: User) -> bool:
    """Whether all that the message says stands in the request."""
    said, kept = _said(message), _said(request)
    return bool(said) and all(part in kept for part in said)


def _said(message: User) -> tuple[Text | Image, ...]:
    return tuple(part for part in message.parts if isinstance(part, Text | Image))


def _who(message: Message) -> str:
    if isinstance(message, Assistant):
        return "the model said" if message.text or not message.calls else "the model called"
    return "you said" if _said(message) else "the program told"
