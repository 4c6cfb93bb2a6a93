"""Messages of which some are damaged or missing, read so that the others make a conversation that can go on."""

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
"""Messages that can be missing between two. What stands farther behind is not where it was written."""


@dataclass(frozen=True, slots=True)
class ReadableMessages:
    """Messages, one for each position, and what is wrong with some of them."""

    messages: tuple[Message, ...]
    problem: str = ""


def try_decode_message(row: MessageRow) -> Message | None:
    """The message in a row; None when it cannot be read any more."""
    try:
        return decode_message(row)
    except StoreFailed:
        return None


def unreadable(position: int) -> str:
    """What is told in place of a message that cannot be read."""
    return f"message {position} of the session cannot be read"


def in_place(rows: Sequence[MessageRow], start: int) -> Sequence[MessageRow]:
    """The rows, which begin behind a position, without those that stand farther on than messages can be missing."""
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
    """The messages in rows that stand in order. A line stands for each that cannot be read or is missing between
    others, with calls and outputs where its neighbours need them; one that was changed is shown as it is now. With
    `positions`: exactly one for each of these. `start`: where the first of the rows is expected; `calls`: the
    ids of the calls whose outputs messages are known to have held, by their positions. `decode`: what makes a message
    of a row, or raises `StoreFailed`."""
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
    """`following`: the calls that the message behind it answered."""
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
        sentences.append(f"{message_numbers(lost)} of the session cannot be read; all others are shown")
    if changed:
        sentences.append(f"{message_numbers(changed)} of the session was changed on the disk since it was written")
    return "; ".join(sentences)


def message_numbers(positions: Sequence[int]) -> str:
    """Messages 3, 4 and 2 more."""
    return f"message{'s' if len(positions) > 1 else ''} {join_limited([*map(str, positions)], MOST_NAMED)}"
