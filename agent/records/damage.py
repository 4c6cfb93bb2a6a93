"""Rebuilds a valid conversation from stored messages when some of them are damaged or missing."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from ebbtide.agent.errors import StoreFailed
from ebbtide.agent.messages import Assistant, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.records.message_rows import decode_message
from ebbtide.store.session_rows import MessageRow
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited

DAMAGED_NOTE = "[this message was damaged on disk and can no longer be read]"
MAX_NAMED_POSITIONS = 10
MAX_POSITION_GAP = 100_000
"""Largest gap between two messages, in positions. Rows after a larger gap count as misplaced."""


@dataclass(frozen=True, slots=True)
class RestoredMessages:
    """Messages, one per position, with a description of any damage."""

    messages: tuple[Message, ...]
    problem: str = ""


def decode_message_or_none(row: MessageRow) -> Message | None:
    """Return the message in a row, or None if it cannot be read."""
    try:
        return decode_message(row)
    except StoreFailed:
        return None


def unreadable_message_error(position: int) -> str:
    """Format the error message for an unreadable message."""
    return f"message {position} of the session cannot be read"


def rows_before_gap(rows: Sequence[MessageRow], start: int) -> Sequence[MessageRow]:
    """Return the rows before the first gap larger than `MAX_POSITION_GAP`. `start`: expected position of the first
    row."""
    if not rows or rows[-1].position - start < len(rows) + MAX_POSITION_GAP:
        return rows
    positions = [start, *(row.position for row in rows)]
    return rows[
        : next(
            (
                index
                for index, (position, next_position) in enumerate(pairwise(positions))
                if next_position - position > MAX_POSITION_GAP
            ),
            len(rows),
        )
    ]


def restore_messages(
    rows: Sequence[MessageRow],
    positions: range | None = None,
    start: int | None = None,
    answered_call_ids: Mapping[int, Sequence[str]] = MappingProxyType({}),
    decode: Callable[[MessageRow], Message] = decode_message,
) -> RestoredMessages:
    """Decode rows in order of position. A placeholder replaces each message that is unreadable, or missing between
    other messages. The placeholder contains the calls and outputs that the neighbouring messages require. If a message
    was changed on disk, the changed version is returned.

    `positions`: return exactly one message for each of these positions. `start`: expected position of the first row.
    `answered_call_ids`: ids of the calls answered at each position. `decode`: converts a row to a message, or raises
    `StoreFailed`.
    """
    decoded: list[Message | None] = []
    roles, lost_positions, changed_positions = list[str](), list[int](), list[int]()
    expected_start = start if start is not None else rows[0].position if rows else 0
    misplaced_positions = [row.position for row in rows[len(rows_before_gap(rows, expected_start)) :]]
    rows = rows[: len(rows) - len(misplaced_positions)]
    first_position = positions.start if positions is not None else rows[0].position if rows else expected_start

    def add_missing_until(position: int) -> None:
        for missing_position in range(first_position + len(decoded), position):
            lost_positions.append(missing_position)
            decoded.append(None)
            roles.append("")

    for row in rows:
        if positions is not None and row.position not in positions:
            continue
        add_missing_until(row.position)
        try:
            decoded.append(decode(row))
            changed_positions += [row.position] if row.is_changed else []
        except StoreFailed:
            decoded.append(None)
            lost_positions.append(row.position)
        roles.append(row.role)
    if positions is not None:
        add_missing_until(positions.stop)
    problem = _damage_text([*lost_positions, *misplaced_positions], changed_positions)
    if not lost_positions:
        return RestoredMessages(tuple(message for message in decoded if message is not None), problem)
    messages: list[Message] = []
    for index, message in enumerate(decoded):
        next_message = decoded[index + 1] if index + 1 < len(decoded) else None
        previous_message = messages[-1] if messages else None
        answered_ids = answered_call_ids.get(first_position + index + 1, ())
        messages.append(message or _make_placeholder(previous_message, roles[index], next_message, answered_ids))
    return RestoredMessages(tuple(messages), problem)


def _make_placeholder(
    previous_message: Message | None, role: str, next_message: Message | None, answered_ids: Sequence[str]
) -> Message:
    """Build a placeholder for a lost message. `answered_ids`: ids of the calls that the next message answers."""
    if isinstance(previous_message, Assistant) and previous_message.calls:
        return User(tuple(ToolOutput(call.id, DAMAGED_NOTE, "interrupted") for call in previous_message.calls))
    if isinstance(next_message, User) and next_message.outputs:
        answered_ids = [output.call_id for output in next_message.outputs]
    if answered_ids:
        return Assistant((Text(DAMAGED_NOTE), *(ToolCall(call_id, "lost", {}) for call_id in answered_ids)), "")
    return Assistant((Text(DAMAGED_NOTE),), "") if role == "assistant" else User((Text(DAMAGED_NOTE),))


def _damage_text(lost_positions: Sequence[int], changed_positions: Sequence[int]) -> str:
    sentences = []
    if lost_positions:
        sentences.append(f"{format_positions(lost_positions)} of the session cannot be read; the others are shown")
    if changed_positions:
        sentences.append(
            f"{format_positions(changed_positions)} of the session was changed on disk after it was written"
        )
    return "; ".join(sentences)


def format_positions(positions: Sequence[int]) -> str:
    """Return positions as text, such as "messages 3, 4 and 2 more"."""
    return f"message{'s' if len(positions) > 1 else ''} {join_limited([*map(str, positions)], MAX_NAMED_POSITIONS)}"
