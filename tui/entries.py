"""The lines of a list to find something in. Plain values."""

from dataclasses import dataclass

from tui.inks import Line


@dataclass(frozen=True, slots=True)
class Entry:
    value: str
    """What choosing it gives."""
    line: Line
    searched: str
    """The words by which it is found."""
    about: tuple[Line, ...] = ()
    """What is told of it while it is marked."""
    is_heading: bool = False
    """It only says what follows: it is never marked, and not there once words are typed."""


def heading(words: str) -> Entry:
    return Entry("", ((words, "strong"),), "", is_heading=True)
