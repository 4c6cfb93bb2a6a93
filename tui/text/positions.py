"""Places in a text: as characters from its beginning, and as line and column. Pure."""

from typing import TypeAlias

TextPosition: TypeAlias = tuple[int, int]
"""Line and column, both from 0."""


def index_of(text: str, location: TextPosition) -> int:
    """Characters in front of a place."""
    line, column = location
    start = 0
    for _ in range(line):
        start = text.index("\n", start) + 1
    return start + column


def location_of(text: str, index: int) -> TextPosition:
    """The place behind so many characters."""
    index = max(0, min(index, len(text)))
    line = text.count("\n", 0, index)
    return line, index - (text.rfind("\n", 0, index) + 1)
