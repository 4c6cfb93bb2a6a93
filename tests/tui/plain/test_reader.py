"""How lines came, as readers tell: on a pseudo-terminal, whose bytes arrive as they are written."""

import asyncio
import os
import tty
from collections.abc import Iterator

import pytest
from prompt_toolkit.keys import Keys

from ebbtide.tui.plain.dumb_terminal import DumbTerminalReader
from ebbtide.tui.plain.line_editor import _TimedInput
from ebbtide.tui.plain.reader import KeyCallbacks


@pytest.fixture
def line() -> Iterator[tuple[int, int]]:
    """The two ends of a pseudo-terminal: the user's, and the program's."""
    user, program = os.openpty()
    yield user, program
    os.close(user)
    os.close(program)


async def test_lines_that_are_written_at_once_are_of_one_read(line: tuple[int, int]) -> None:
    user, program = line
    reader = DumbTerminalReader(program, program, KeyCallbacks())
    reader.set_prompt("Answer: ")
    try:
        came = []
        for written in (b"y\n", b"n\nalways use round()\n"):
            os.write(user, written)
            for _ in range(written.count(b"\n")):
                async with asyncio.timeout(20):
                    came.append((await reader.read(), reader.arrival.read_number, reader.arrival.is_alone))
    finally:
        reader.close()
    assert came == [("y", 1, True), ("n", 2, False), ("always use round()", 2, False)]


@pytest.mark.parametrize(
    ("written", "is_alone"),
    [(b"y\r", True), (b"y\ry\r", False), (b"why\ry", False), (b"\x1b[200~y\r\x1b[201~\r", False), (b"a\nb", False)],
)
def test_keys_that_end_several_lines_are_not_alone(line: tuple[int, int], written: bytes, is_alone: bool) -> None:
    user, program = line
    tty.setraw(program)
    with os.fdopen(os.dup(program)) as source:
        typed = _TimedInput(source)
        os.write(user, written)
        keys = typed.read_keys()
    assert (keys[-1].key != Keys.Escape, typed.arrival.read_number, typed.arrival.is_alone) == (True, 1, is_alone)
