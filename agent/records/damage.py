"""Rebuilds a valid conversation from stored messages, some of which may be damaged or missing."""

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
MAX_NAMED_POSITIONS = 10
MAX_POSITION_GAP = 100_000
"""Largest gap between two messages, in positions. Rows after a larger gap count as misplaced."""


@dataclass(frozen=True, slots=True)
class ReadableMessages:
    """Messages, one per position, and a description of any damage."""

    messages: tuple[Message, ...]
    problem: str = ""


def decode_message_or_none(row: MessageRow) -> Message | None:
    """Return the message in a row, or None if it cannot be read."""
    try:
        return decode_message(row)
    except StoreFailed:
        return None


def unreadable_message_error(position: int) -> str:
    """Return the error text for an unreadable message."""
    return f"message {position} of the session cannot be read"


def rows_in_place(rows: Sequence[MessageRow], start: int) -> Sequence[MessageRow]:
    """Return the rows from `start` up to the first gap larger than `MAX_POSITION_GAP`."""
    if not rows or rows[-1].position - start < len(rows) + MAX_POSITION_GAP:
        return rows
    positions = [start, *(row.position for row in rows)]
    return rows[
        : next((n for n, (one, after) in enumerate(pairwise(positions)) if after - one > MAX_POSITION_GAP), len(rows))
    ]


def restore_messages(
    rows: Sequence[MessageRow],
    positions: range | None = None,
    start: int | None = None,
    calls: Mapping[int, Sequence[str]] = MappingProxyType({}),
    decode: Callable[[MessageRow], Message] = decode_message,
) -> ReadableMessages:
    """Decode rows in order of position. A placeholder replaces each message that is unreadable, or missing between
    others. It contains the calls and outputs that the neighbouring messages require. A message that was changed on disk
    is returned as it is now.

    `positions`: return exactly one message for each of these. `start`: expected position of the first row. `calls`: ids
    of the calls answered at each position. `decode`: converts a row to a message, or raises `StoreFailed`.
    """
    found: list[Message | None] = []
    roles, lost, changed = list[str](), list[int](), list[int]()
    begin = start if start is not None else rows[0].position if rows else 0
    misplaced = [row.position for row in rows[len(rows_in_place(rows, begin)) :]]
    rows = rows[: len(rows) - len(misplaced)]
    first = positions.start if positions is not None else rows[0].position if rows else begin

    def add_missing_until(position: int) -> None:
        for missing in range(first + len(found), position):
            lost.append(missing)
            found.append(None)
            roles.append("")

    for row in rows:
        if positions is not None and row.position not in positions:
            continue
        add_missing_until(row.position)
        try:
            found.append(decode(row))
            changed += [row.position] if row.is_changed else []
        except StoreFailed:
            found.append(None)
            lost.append(row.position)
        roles.append(row.role)
    if positions is not None:
        add_missing_until(positions.stop)
    problem = _damage_text([*lost, *misplaced], changed)
    if not lost:
        return ReadableMessages(tuple(message for message in found if message is not None), problem)
    messages: list[Message] = []
    for number, message in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        before, following = messages[-1] if messages else None, calls.get(first + number + 1, ())
        messages.append(message or _placeholder(before, roles[number], after, following))
    return ReadableMessages(tuple(messages), problem)


def _placeholder(before: Message | None, role: str, after: Message | None, following: Sequence[str]) -> Message:
    """Return a placeholder for a lost message. `following`: the calls answered by the next message."""
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
    """Return positions as text, such as "messages 3, 4 and 2 more"."""
    return f"message{'s' if len(positions) > 1 else ''} {join_limited([*map(str, positions)], MAX_NAMED_POSITIONS)}"
