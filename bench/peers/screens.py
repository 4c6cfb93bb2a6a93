"""Reads what a program has drawn: pure functions from its output to what a person sees."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyte

UNREADABLE = re.compile(
    rb"\x1b[P_^X].*?(?:\x1b\\|\x07)"  # strings for other devices, which would be drawn as text
    rb"|\x1b\[[<=>][0-9;:]*[a-zA-Z]"  # keyboard modes and versions
    rb"|\x1b\[[0-9;:?]*[ $!\"'][a-zA-Z]"  # cursor shapes and mode queries
    rb"|\x1b\[\?[0-9;]*n",  # queries, which `answers` answers or not
    re.DOTALL,
)
QUERIES = re.compile(
    rb"(?P<attributes>\x1b\[0?c)|(?P<status>\x1b\[5n)|(?P<position>\x1b\[6n)|(?P<colour>\x1b\]1(?P<number>[01]);\?)"
    rb"|(?P<mode>\x1b\[\?(?P<which>\d+)\$p)|(?P<keyboard>\x1b\[\?u)"
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A piece of a program's output, and the time at which it arrived."""

    at: float
    raw: bytes


class Screen:
    """A terminal's screen, fed with output as it arrives."""

    def __init__(self, columns: int, lines: int) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._pending = b""

    def feed(self, raw: bytes) -> None:
        raw = self._pending + raw
        cut = unfinished_from(raw)
        raw, self._pending = raw[:cut], raw[cut:]
        self._stream.feed(UNREADABLE.sub(b"", raw))

    @property
    def rows(self) -> list[str]:
        return list(self._screen.display)

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and line, from 1."""
        return self._screen.cursor.x + 1, self._screen.cursor.y + 1


def unfinished_from(raw: bytes) -> int:
    """Return where a control sequence at the end begins that is not complete, or the length."""
    found = re.search(rb"\x1b(?:\[[0-9;:?<=> $!\"']*|[P_^X\]][^\x07\x1b]{0,4000}\x1b?)?\Z", raw)
    return len(raw) if found is None else found.start()


def answers(raw: bytes, cursor: tuple[int, int]) -> bytes:
    """Return what an ordinary terminal replies to the queries in some output: xterm's answers, on a dark background,
    with frames that are drawn at once."""
    replies = []
    for query in QUERIES.finditer(raw):
        match query.lastgroup:
            case "attributes":
                replies.append(b"\x1b[?62;22c")
            case "status":
                replies.append(b"\x1b[0n")
            case "position":
                replies.append(b"\x1b[%d;%dR" % (cursor[1], cursor[0]))
            case "colour":
                colour = b"ffff/ffff/ffff" if query["number"] == b"0" else b"0000/0000/0000"
                replies.append(b"\x1b]1%b;rgb:%b\x1b\\" % (query["number"], colour))
            case "mode":
                replies.append(b"\x1b[?%b;%d$y" % (query["which"], 2 if query["which"] == b"2026" else 0))
            case _:
                pass  # the keyboard protocol is one that xterm does not have
    return b"".join(replies)


def row_of(typed: str, rows: Sequence[str]) -> int | None:
    """Return the last row that contains one of the typed keys."""
    return next((row for row in reversed(range(len(rows))) if any(key in rows[row] for key in typed)), None)


def first_prompt_row(snapshots: Iterable[Sequence[str]], mark: str) -> int | None:
    """Return the row at which a prompt's mark was first drawn, in snapshots of the screen in order. A mark is what a
    row begins with, such as `> `."""
    for rows in snapshots:
        found = [row for row, line in enumerate(rows) if mark and line.strip().startswith(mark)]
        if found:
            return found[-1]
    return None


def prompt_mark(line: str, typed: str) -> str:
    """Return what stands before the first typed key in the prompt's line, without blanks."""
    return line[: min((line.index(key) for key in typed if key in line), default=0)].strip()
