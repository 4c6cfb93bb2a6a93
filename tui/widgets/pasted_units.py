"""Keys that treat a paste placeholder as one unit."""

from typing import TypeAlias

from textual.widgets import TextArea

from ebbtide.tui.prompt.pastes import MAX_UNFOLDED_CHARS, Pastes

TextPosition: TypeAlias = tuple[int, int]
"""Line and column, both from 0."""


def index_of(text: str, location: TextPosition) -> int:
    """Index of a position in characters."""
    line, column = location
    start = 0
    for _ in range(line):
        start = text.index("\n", start) + 1
    return start + column


def location_of(text: str, index: int) -> TextPosition:
    """Position of an index in characters."""
    index = max(0, min(index, len(text)))
    line = text.count("\n", 0, index)
    return line, index - (text.rfind("\n", 0, index) + 1)


class PastedUnits:
    """The paste placeholders in a text area."""

    def __init__(self, area: TextArea, pastes: Pastes) -> None:
        self._area = area
        self._pastes = pastes

    def process_key(self, key: str) -> bool:
        """Handle a key at a placeholder; return whether it was handled. Typing inside one inserts after it."""
        if self._area.selected_text:
            return False
        text, at = self._area.text, index_of(self._area.text, self._area.cursor_location)
        unit = self._pastes.unit_at(text, at)
        if unit is None:
            return False
        start, end = unit
        match key:
            case "backspace" | "ctrl+h" if at > start:
                self._replace("", start, end)
            case "delete" if at < end:
                self._replace("", start, end)
            case "left" if at > start:
                self._area.move_cursor(location_of(text, start))
            case "right" if at < end:
                self._area.move_cursor(location_of(text, end))
            case "ctrl+o":
                return self._unfold(text, start, end)
            case _:
                if start < at < end:
                    self._area.move_cursor(location_of(text, end))
                return False
        return True

    def _unfold(self, text: str, start: int, end: int) -> bool:
        whole = self._pastes.text_of(text[start:end])
        if whole is None or len(whole) > MAX_UNFOLDED_CHARS:
            return False
        self._replace(whole, start, end)
        return True

    def _replace(self, insert: str, start: int, end: int) -> None:
        text = self._area.text
        places = location_of(text, start), location_of(text, end)
        self._area.replace(insert, *places, maintain_selection_offset=False)
