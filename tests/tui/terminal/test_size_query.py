"""A terminal that is not as large as the system says is believed."""

import pytest
from textual.geometry import Size
from textual.message import Message

from ebbtide.tui.terminal.size_query import SizeMismatch, SizeReported, TrackedSize, size_in_reply
from ebbtide.tui.terminal.terminal_driver import TerminalInput

REAL, LIE, OTHER = Size(80, 24), Size(500, 200), Size(120, 40)


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        ("\x1b[24;80R", REAL),
        ("\x1b[1;5R", None),
        ("\x1b[24;1R", None),
        ("\x1b[8;24;80t", None),
        ("\x1b[24;99999R", None),
        ("\x1b[24R", None),
    ],
)
def test_an_answer_tells_lines_and_columns(answer: str, size: Size | None) -> None:
    assert size_in_reply(answer) == size


def test_an_answer_is_no_typing_wherever_it_is_cut() -> None:
    whole = b"a\x1b[24;80Rb"
    for cut in range(len(whole)):
        received: list[Message] = []
        hearing = TerminalInput(received.append, debug=False)
        for piece in (whole[:cut], whole[cut:]):
            hearing.feed_bytes(piece) if piece else None
        sizes = [message.size for message in received if isinstance(message, SizeReported)]
        assert (
            sizes,
            [getattr(message, "key", "") for message in received if not isinstance(message, SizeReported)],
        ) == (
            [REAL],
            ["a", "b"],
        )


def test_the_terminal_is_believed_until_the_system_has_news() -> None:
    believed = TrackedSize()
    believed.record_query(LIE)
    assert (believed.record_reply(REAL, LIE), believed.current_size(LIE)) == (True, REAL)
    assert believed.record_reply(REAL, LIE) is False
    believed.reset()
    assert believed.current_size(OTHER) == OTHER


def test_an_answer_that_agrees_or_that_a_change_has_overtaken_changes_nothing() -> None:
    believed = TrackedSize()
    assert believed.record_reply(REAL, LIE) is False
    believed.record_query(REAL)
    assert (believed.record_reply(REAL, REAL), believed.current_size(REAL)) == (False, REAL)
    believed.record_query(LIE)
    assert (believed.record_reply(REAL, OTHER), believed.current_size(OTHER)) == (False, OTHER)


def test_what_is_said_names_both_sizes_and_what_to_do() -> None:
    assert SizeMismatch(REAL, LIE).message_text == (
        "the terminal reports 80×24, the system 500×200: using the terminal's size; "
        "`stty cols 80 rows 24` corrects the system's"
    )
