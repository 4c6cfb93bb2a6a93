"""Measures the bytes that the interface writes in use, which matter on slow connections.

python -m bench.tui.written"""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.measure import compile_sources
from bench.tui.sessions import LAST, ebb, home, store_session
from bench.tui.streaming import Model, tokens
from bench.tui.terminal import Terminal

PACE = 20.0
TOKENS = 100
SILENCE = 10.0
"""Seconds until a model begins to answer."""
LINE = "please look at the parser again, it fails"
ID = "aa11bb22cc33"
MESSAGES = 20


@dataclass(frozen=True, slots=True)
class WrittenBytes:
    """Bytes written to a screen of 120 columns and 40 lines."""

    line: int
    """While a line is typed."""
    list: int
    """While a list is opened."""
    scrolling: int
    """While scrolling five screens up and five down."""
    waiting: int
    """During ten seconds of waiting for a model."""
    answer: int
    """During a five-second answer."""


def measure_written(folder: Path) -> WrittenBytes:
    """Measure a session in a new home in `folder`."""
    project = folder / "project"
    project.mkdir()
    slow, silent = Model(TOKENS, PACE), Model(1, PACE, SILENCE)
    env = home(folder / "home", slow.url)
    store_session(folder / "home", project, ID, MESSAGES)
    try:
        line, list, scrolling, answer = _measure_use(env, project)
        waiting = _answer_bytes(home(folder / "home", silent.url), project, 1)
    finally:
        slow.shutdown()
        silent.shutdown()
    return WrittenBytes(line, list, scrolling, waiting, answer)


def _measure_use(env: Mapping[str, str], project: Path) -> tuple[int, int, int, int]:
    with Terminal(ebb("-r", ID), env, project) as terminal:
        terminal.shows(LAST)
        terminal.rest()
        before = terminal.written
        for letter in LINE:
            terminal.press(letter)
            terminal.rest(0.05)
        line, before = terminal.written - before, terminal.written
        terminal.press("\x15\x10")
        terminal.rest()
        list = terminal.written - before
        terminal.press("\x1b")
        terminal.rest()
        before = terminal.written
        for key in ["\x1b[5~"] * 5 + ["\x1b[6~"] * 5:
            terminal.press(key)
            terminal.rest(0.1)
        scrolling = terminal.written - before
    return line, list, scrolling, _answer_bytes(env, project, TOKENS)


def _answer_bytes(env: Mapping[str, str], project: Path, count: int) -> int:
    """Bytes written until an answer of `count` tokens is shown."""
    last = "".join(tokens(count)).split()[-1]
    with Terminal(ebb("-r", ID), env, project) as terminal:
        terminal.shows(LAST)
        terminal.rest()
        before = terminal.written
        terminal.press("tell me everything\r")
        terminal.until(lambda text: last in text.rpartition("tell me everything")[2])
        terminal.rest()
        return terminal.written - before


def main() -> int:
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        told = measure_written(Path(name))
    print(f"a line of {len(LINE)} letters     {told.line / 1000:8.1f} kB")
    print(f"a list opened            {told.list / 1000:8.1f} kB")
    print(f"ten screens scrolled     {told.scrolling / 1000:8.1f} kB")
    print(f"{SILENCE:.0f} seconds of waiting    {told.waiting / 1000:8.1f} kB")
    print(f"{TOKENS / PACE:.0f} seconds of an answer  {told.answer / 1000:8.1f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
