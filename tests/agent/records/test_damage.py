"""Messages of which some are damaged or missing."""

from ebbtide.agent.messages import Message, Text, User
from ebbtide.agent.records.damage import DAMAGED_NOTE, FARTHEST, ReadableMessages, in_place, readable
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.store.session_rows import MessageRow


def said(number: int) -> User:
    return User((Text(f"said {number}"),))


def rows_at(*positions: int) -> list[MessageRow]:
    return [encode_message(said(position), position) for position in positions]


def lost() -> Message:
    return User((Text(DAMAGED_NOTE),))


def test_a_page_holds_one_message_for_each_position_also_where_its_ends_are_missing() -> None:
    told = "messages 4, 7, 9 of the session cannot be read; the others are shown"
    assert readable(rows_at(2, 3, 5, 6, 8), range(4, 10)) == ReadableMessages(
        (lost(), said(5), said(6), lost(), said(8), lost()), told
    )
    assert readable((), range(2)) == ReadableMessages(
        (lost(), lost()), "messages 0, 1 of the session cannot be read; the others are shown"
    )


def test_without_positions_they_begin_with_the_first_that_is_there() -> None:
    assert readable(rows_at(2, 4)) == ReadableMessages(
        (said(2), lost(), said(4)), "message 3 of the session cannot be read; the others are shown"
    )
    assert readable(()) == ReadableMessages(())


def test_what_stands_where_no_message_can_is_left_out() -> None:
    far = 1 << 40
    told = f"message {far} of the session cannot be read; the others are shown"
    assert readable(rows_at(2, 3, far)) == ReadableMessages((said(2), said(3)), told)
    assert readable(rows_at(far), start=5) == ReadableMessages((), told)
    assert [row.position for row in in_place(rows_at(2, 3, far), 0)] == [2, 3]
    assert in_place(rows_at(2, FARTHEST), 0) == rows_at(2, FARTHEST)
