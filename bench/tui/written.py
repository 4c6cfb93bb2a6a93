"""Measures the bytes that the interface writes in use, which matter on slow connections.

python -m bench.tui.written"""

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.measure import compile_sources
from bench.tui.sessions import LAST_LINE, create_home, ebb_command, store_session
from bench.tui.streaming import StreamingServer, answer_tokens
from bench.tui.terminal import Terminal

TOKENS_PER_SECOND = 20.0
ANSWER_TOKENS = 100
SILENCE_SECONDS = 10.0
"""Seconds until a model begins to answer."""
TYPED_LINE = "please look at the parser again, it fails"
SESSION_ID = "aa11bb22cc33"
SESSION_MESSAGES = 20


@dataclass(frozen=True, slots=True)
class WrittenBytes:
    """Bytes written to a screen of 120 columns and 40 lines."""

    line: int
    """Bytes written while a line is typed."""
    list: int
    """Bytes written while a list is opened."""
    scrolling: int
    """Bytes written while scrolling five screens up and five down."""
    waiting: int
    """Bytes written during ten seconds of waiting for a model."""
    answer: int
    """Bytes written during a five-second answer."""


def measure_written(folder: Path) -> WrittenBytes:
    """Measure a session in a new home in `folder`."""
    project = folder / "project"
    project.mkdir()
    slow, silent = (
        StreamingServer(ANSWER_TOKENS, TOKENS_PER_SECOND),
        StreamingServer(1, TOKENS_PER_SECOND, SILENCE_SECONDS),
    )
    env = create_home(folder / "home", slow.url)
    store_session(folder / "home", project, SESSION_ID, SESSION_MESSAGES)
    try:
        line, list, scrolling, answer = _use_bytes(env, project)
        waiting = _answer_bytes(create_home(folder / "home", silent.url), project, 1)
    finally:
        slow.shutdown()
        silent.shutdown()
    return WrittenBytes(line, list, scrolling, waiting, answer)


def _use_bytes(env: Mapping[str, str], project: Path) -> tuple[int, int, int, int]:
    with Terminal(ebb_command("-r", SESSION_ID), env, project) as terminal:
        terminal.wait_for_text(LAST_LINE)
        terminal.wait_until_idle()
        before = terminal.written_bytes
        for letter in TYPED_LINE:
            terminal.press(letter)
            terminal.wait_until_idle(0.05)
        line, before = terminal.written_bytes - before, terminal.written_bytes
        terminal.press("\x15\x10")
        terminal.wait_until_idle()
        list = terminal.written_bytes - before
        terminal.press("\x1b")
        terminal.wait_until_idle()
        before = terminal.written_bytes
        for key in ["\x1b[5~"] * 5 + ["\x1b[6~"] * 5:
            terminal.press(key)
            terminal.wait_until_idle(0.1)
        scrolling = terminal.written_bytes - before
    return line, list, scrolling, _answer_bytes(env, project, ANSWER_TOKENS)


def _answer_bytes(env: Mapping[str, str], project: Path, count: int) -> int:
    """Return the bytes written until an answer of `count` tokens is shown."""
    last = "".join(answer_tokens(count)).split()[-1]
    with Terminal(ebb_command("-r", SESSION_ID), env, project) as terminal:
        terminal.wait_for_text(LAST_LINE)
        terminal.wait_until_idle()
        before = terminal.written_bytes
        terminal.press("tell me everything\r")
        terminal.wait_until(lambda text: last in text.rpartition("tell me everything")[2])
        terminal.wait_until_idle()
        return terminal.written_bytes - before


def main() -> int:
    compile_sources()
    with tempfile.TemporaryDirectory() as name:
        written = measure_written(Path(name))
    print(f"a line of {len(TYPED_LINE)} letters     {written.line / 1000:8.1f} kB")
    print(f"a list opened            {written.list / 1000:8.1f} kB")
    print(f"ten screens scrolled     {written.scrolling / 1000:8.1f} kB")
    print(f"{SILENCE_SECONDS:.0f} seconds of waiting    {written.waiting / 1000:8.1f} kB")
    print(f"{ANSWER_TOKENS / TOKENS_PER_SECOND:.0f} seconds of an answer  {written.answer / 1000:8.1f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
