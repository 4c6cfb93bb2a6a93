"""The lines of a list to find something in. Plain values."""

from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from tui.text.inks import Line, Span


@dataclass(frozen=True, slots=True)
class ListEntry:
    value: str
    """What choosing it gives."""
    line: Line
    searched: str
    """The words by which it is found."""
    about: tuple[Line, ...] = ()
    """What is told of it while it is marked."""
    at_end: Span | None = None
    """Stands at the right end of the line, and gives way to nothing."""
    is_heading: bool = False
    """It only says what follows: it is never marked, and not there once words are typed."""


def heading(words: str) -> ListEntry:
    return ListEntry("", ((words, "strong"),), "", is_heading=True)


def set_in(entry: ListEntry, width: int) -> Line:
    """The line of an entry, as wide as its place where something stands at its end."""
    if entry.at_end is None:
        return entry.line
    room = max(0, width - cell_len(entry.at_end[0]) - 2)
    spans: list[Span] = []
    for words, ink in entry.line:
        if cell_len(words) > room:
            words = f"{set_cell_size(words, room - 1)}…" if room else ""
        spans.append((words, ink))
        room -= cell_len(words)
        if not room:
            break
    return (*spans, (" " * (room + 2), "dim"), entry.at_end)
