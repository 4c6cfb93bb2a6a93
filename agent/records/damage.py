"""Rebuilds a valid conversation from messages of which some are damaged or missing."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Assistant, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.store.session_rows import MessageRow
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

DAMAGED_NOTE = "[what stood here was damaged on the disk and cannot be read any more]"
MOST_NAMED = 10
FARTHEST = 100_000
"""The largest gap between two messages, in positions. Rows beyond it are treated as misplaced."""


@dataclass(frozen=True, slots=True)
class ReadableMessages:
    """Messages, one per position, and a description of any damage."""

    messages: tuple[Message, ...]
    problem: str = ""


def try_decode_message(row: MessageRow) -> Message | None:
    """Return the message in a row, or None if it cannot be read."""
    try:
        return decode_message(row)
    except StoreFailed:
        return None


def unreadable(position: int) -> str:
    """The error text for an unreadable message."""
    return f"message {position} of the session cannot be read"


def in_place(rows: Sequence[MessageRow], start: int) -> Sequence[MessageRow]:
    """The rows after `start`, cut at the first gap larger than `FARTHEST`."""
    if not rows or rows[-1].position - start < len(rows) + FARTHEST:
        return rows
    places = [start, *(row.position for row in rows)]
    return rows[: next((n for n, (one, after) in enumerate(pairwise(places)) if after - one > FARTHEST), len(rows))]


def readable(
    rows: Sequence[MessageRow],
    positions: range | None = None,
    start: int | None = None,
    calls: Mapping[int, Sequence[str]] = MappingProxyType({}),
    decode: Callable[[MessageRow], Message] = decode_message,
) -> ReadableMessages:
    """Decode rows in order of position. Each unreadable message, and each one missing between others, is replaced by a
    placeholder, with the calls and outputs that its neighbours need. Messages changed on disk are shown as they are
    now.

    `positions`: return exactly one message for each of these. `start`: expected position of the first row. `calls`:
    ids of the calls answered at each position. `decode`: turns a row into a message, or raises `StoreFailed`."""
    found: list[Message | None] = []
    roles, lost, changed = list[str](), list[int](), list[int]()
    begin = start if start is not None else rows[0].position if rows else 0
    astray = [row.position for row in rows[len(in_place(rows, begin)) :]]
    rows = rows[: len(rows) - len(astray)]
    first = positions.start if positions is not None else rows[0].position if rows else begin

    def miss_until(position: int) -> None:
        for missing in range(first + len(found), position):
            lost.append(missing)
            found.append(None)
            roles.append("")

    for row in rows:
        if positions is not None and row.position not in positions:
            continue
        miss_until(row.position)
        try:
            found.append(decode(row))
            changed += [row.position] if row.is_changed else []
        except StoreFailed:
            found.append(None)
            lost.append(row.position)
        roles.append(row.role)
    if positions is not None:
        miss_until(positions.stop)
    told = _damage_text([*lost, *astray], changed)
    if not lost:
        return ReadableMessages(tuple(message for message in found if message is not None), told)
    messages: list[Message] = []
    for number, message in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        before, following = messages[-1] if messages else None, calls.get(first + number + 1, ())
        messages.append(message or _stand_in(before, roles[number], after, following))
    return ReadableMessages(tuple(messages), told)


def _stand_in(before: Message | None, role: str, after: Message | None, following: Sequence[str]) -> Message:
    """A placeholder for a lost message. `following`: the calls answered by the next message."""
    if isinstance(before, Assistant) and before.calls:
        return User(tuple(ToolOutput(call.id, DAMAGED_NOTE, "interrupted") for call in before.calls))
    if isinstance(after, User) and after.outputs:
        following = [output.call_id for output in after.outputs]
    if following:
        return Assistant((Text(DAMAGED_NOTE), *(ToolCall(id, "lost", {}) for id in following)), "")
    return Assistant((Text(DAMAGED_NOTE),), "") if role == "assistant" else User((Text(DAMAGED_NOTE),))


def _damage_text(lost: Sequence[int], changed: Sequence[int]) -> str:
    sentences = []
    if lost:
        sentences.append(f"{message_numbers(lost)} of the session cannot be read; the others are shown")
    if changed:
        sentences.append(f"{message_numbers(changed)} of the session was changed on disk after it was written")
    return "; ".join(sentences)


def message_numbers(positions: Sequence[int]) -> str:
    """Positions in words, as in "messages 3, 4 and 2 more"."""
    return f"message{'s' if len(positions) > 1 else ''} {join_limited([*map(str, positions)], MOST_NAMED)}"
