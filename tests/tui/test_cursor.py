"""Where the terminal's own cursor stands: input methods write at that place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.tui.ptys import Screen, running


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Screen]:
    with running(tmp_path, '[[reply]]\ntext = "Seen."\n') as screen:
        screen.until("/help shows keys")
        yield screen


def stands_behind(screen: Screen, words: str) -> None:
    """Waits until the cursor stands in the cell behind the words, counted in cells as the terminal does."""
    while True:
        for y, line in enumerate(screen.text.split("\n")):
            before, found, _ = line.partition(words)
            if found and screen.cursor == (cell_len(before) + cell_len(words), y):
                return
        screen.read_more(f"the cursor behind {words!r}, which is at {screen.cursor}")


def test_the_cursor_stands_where_the_text_goes(terminal: Screen) -> None:
    terminal.child.send("plain")
    stands_behind(terminal, "plain")
    terminal.child.send(" 日本語の文")
    stands_behind(terminal, "plain 日本語の文")
    terminal.child.send("\x1b[D\x1b[D")
    stands_behind(terminal, "plain 日本語")
    terminal.child.send("\x1b[F\nnext 한")
    stands_behind(terminal, "next 한")
    terminal.child.send("\n" * 3 + "/x")
    stands_behind(terminal, "/x")


def test_the_cursor_stands_in_the_line_of_a_search(terminal: Screen) -> None:
    terminal.send("first 日本\r", until="Seen.")
    terminal.child.send("\x12")
    stands_behind(terminal, "history ")
    terminal.child.send("日")
    stands_behind(terminal, "history 日")
    terminal.child.send("\r")
    stands_behind(terminal, "first 日本")
    terminal.child.send("\x15\x06")
    stands_behind(terminal, "find ")
    terminal.child.send("日本")
    stands_behind(terminal, "find 日本")


def test_the_cursor_stands_in_the_filter_of_a_list(terminal: Screen) -> None:
    terminal.child.send("/mod")
    stands_behind(terminal, "/mod")
    terminal.send("el\r", until="type to find")
    terminal.child.send("日x")
    stands_behind(terminal, "日x")


def test_what_is_typed_before_the_search_is_there_is_looked_for(terminal: Screen) -> None:
    terminal.send("make the parser\r", until="Seen.")
    terminal.child.send("\x12pars")
    stands_behind(terminal, "history pars")
    terminal.child.send("\r")
    stands_behind(terminal, "make the parser")
