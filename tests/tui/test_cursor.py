"""Where the terminal's own cursor stands: input methods write at that place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.kit.pty_terminal import Screen, ready


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Screen]:
    with ready(tmp_path, '[[reply]]\ntext = "Seen."\n') as screen:
        yield screen


def typed(screen: Screen, keys: str, words: str) -> None:
    """Types, and waits until the cursor stands in the cell behind the words, counted in cells as the terminal does."""
    screen.child.send(keys)
    while True:
        for y, line in enumerate(screen.text.split("\n")):
            before, found, _ = line.partition(words)
            if found and screen.cursor == (cell_len(before) + cell_len(words), y):
                return
        screen.read_more(f"the cursor behind {words!r}, which is at {screen.cursor}")


def test_the_cursor_stands_where_the_text_goes(terminal: Screen) -> None:
    typed(terminal, "plain", "plain")
    typed(terminal, " 日本語の文", "plain 日本語の文")
    typed(terminal, "\x1b[D\x1b[D", "plain 日本語")
    typed(terminal, "\x1b[F\nnext 한", "next 한")
    typed(terminal, "\n" * 3 + "/x", "/x")


def test_the_cursor_stands_in_the_line_of_a_search(terminal: Screen) -> None:
    terminal.send("first 日本\r", until="Seen.")
    typed(terminal, "\x12", "history ")
    typed(terminal, "日", "history 日")
    typed(terminal, "\r", "first 日本")
    typed(terminal, "\x15\x06", "find ")
    typed(terminal, "日本", "find 日本")


def test_the_cursor_stands_in_the_filter_of_a_list(terminal: Screen) -> None:
    typed(terminal, "/mod", "/mod")
    terminal.send("el\r", until="type to find")
    typed(terminal, "日x", "日x")


def test_what_is_typed_before_the_search_is_there_is_looked_for(terminal: Screen) -> None:
    terminal.send("make the parser\r", until="Seen.")
    typed(terminal, "\x12pars", "history pars")
    typed(terminal, "\r", "make the parser")
