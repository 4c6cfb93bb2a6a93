"""Messages of which some are damaged or missing."""

from ebbtide.agent.messages import Message, Text, User
from ebbtide.agent.records.damage import (
    DAMAGED_NOTE,
    MAX_POSITION_GAP,
    RestoredMessages,
    restore_messages,
    rows_before_gap,
)
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.store.session_rows import MessageRow


def said(number: int) -> User:
    return User((Text(f"said {number}"),))


def rows_at(*positions: int) -> list[MessageRow]:
    return [encode_message(said(position), position) for position in positions]


def lost() -> Message:
    return User((Text(DAMAGED_NOTE),))


def test_a_page_holds_one_message_for_each_position_also_where_its_ends_are_missing() -> None:
    problem = "messages 4, 7, 9 of the session cannot be read; the others are shown"
    assert restore_messages(rows_at(2, 3, 5, 6, 8), range(4, 10)) == RestoredMessages(
        (lost(), said(5), said(6), lost(), said(8), lost()), problem
    )
    assert restore_messages((), range(2)) == RestoredMessages(
        (lost(), lost()), "messages 0, 1 of the session cannot be read; the others are shown"
    )


def test_without_positions_they_begin_with_the_first_that_is_there() -> None:
    assert restore_messages(rows_at(2, 4)) == RestoredMessages(
        (said(2), lost(), said(4)), "message 3 of the session cannot be read; the others are shown"
    )
    assert restore_messages(()) == RestoredMessages(())


def test_what_stands_where_no_message_can_is_left_out() -> None:
    far = 1 << 40
    problem = f"message {far} of the session cannot be read; the others are shown"
    assert restore_messages(rows_at(2, 3, far)) == RestoredMessages((said(2), said(3)), problem)
    assert restore_messages(rows_at(far), start=5) == RestoredMessages((), problem)
    assert [row.position for row in rows_before_gap(rows_at(2, 3, far), 0)] == [2, 3]
    assert rows_before_gap(rows_at(2, MAX_POSITION_GAP), 0) == rows_at(2, MAX_POSITION_GAP)
