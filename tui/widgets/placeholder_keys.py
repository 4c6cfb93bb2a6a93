"""Keys in the prompt that treat a paste's placeholder as one unit."""

from typing import TypeAlias

from textual.widgets import TextArea

from ebbtide.tui.prompt.pastes import MAX_EXPANDED_CHARS, Pastes

TextPosition: TypeAlias = tuple[int, int]
"""Line and column, both from 0."""


def char_index(text: str, position: TextPosition) -> int:
    """Convert a line and column to a character index."""
    line, column = position
    line_start = 0
    for _ in range(line):
        line_start = text.index("\n", line_start) + 1
    return line_start + column


def text_position(text: str, index: int) -> TextPosition:
    """Convert a character index to a line and column."""
    index = max(0, min(index, len(text)))
    line = text.count("\n", 0, index)
    return line, index - (text.rfind("\n", 0, index) + 1)


class PlaceholderKeys:
    """Handles keys next to or inside paste placeholders in a text area."""

    def __init__(self, area: TextArea, pastes: Pastes) -> None:
        self._area = area
        self._pastes = pastes

    def process_key(self, key: str) -> bool:
        """Handle a key at a placeholder. Returns whether it was handled. Text typed inside a placeholder is inserted
        after it."""
        if self._area.selected_text:
            return False
        text, index = self._area.text, char_index(self._area.text, self._area.cursor_location)
        placeholder_range = self._pastes.placeholder_at(text, index)
        if placeholder_range is None:
            return False
        start, end = placeholder_range
        match key:
            case "backspace" | "ctrl+h" if index > start:
                self._replace("", start, end)
            case "delete" if index < end:
                self._replace("", start, end)
            case "left" if index > start:
                self._area.move_cursor(text_position(text, start))
            case "right" if index < end:
                self._area.move_cursor(text_position(text, end))
            case "ctrl+o":
                return self._expand(text, start, end)
            case _:
                if start < index < end:
                    self._area.move_cursor(text_position(text, end))
                return False
        return True

    def _expand(self, text: str, start: int, end: int) -> bool:
        full_text = self._pastes.pasted_text(text[start:end])
        if full_text is None or len(full_text) > MAX_EXPANDED_CHARS:
            return False
        self._replace(full_text, start, end)
        return True

    def _replace(self, replacement: str, start: int, end: int) -> None:
        text = self._area.text
        positions = text_position(text, start), text_position(text, end)
        self._area.replace(replacement, *positions, maintain_selection_offset=False)
