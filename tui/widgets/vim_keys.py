"""Connects vi keys to a text area. What the keys do is defined in `ebbtide.tui.prompt.vim`."""

from collections.abc import Callable
from itertools import takewhile

from textual import events
from textual.widgets import TextArea

from ebbtide.tui.prompt.key_arrivals import alt_character
from ebbtide.tui.prompt.vim import Vim, press_key
from ebbtide.tui.widgets.placeholder_keys import char_index, text_position


class VimKeys:
    """The vi state of a text area. `move_up` and `move_down` are called when the cursor would move past the first or
    last line."""

    def __init__(self, area: TextArea, move_up: Callable[[], object], move_down: Callable[[], object]) -> None:
        self.vim = Vim()
        self._area = area
        self._move_up = move_up
        self._move_down = move_down

    @property
    def status_text(self) -> str:
        return self.vim.status_text

    def process_key(self, event: events.Key) -> bool:
        """Handle a key. Returns whether it was handled. If a character follows Esc so quickly that both arrive as an
        Alt key, they count as two keys."""
        if character := alt_character(event):
            if self.vim.mode == "insert" or self.vim.pending:
                self._apply_key("escape")
            self._apply_key(character)
            return True
        return self._apply_key(event.character if event.is_printable and event.character else event.key)

    def _apply_key(self, key: str) -> bool:
        if self.vim.mode == "normal" and key == "backspace":
            key = "h"
        text = self._area.text
        step = press_key(self.vim, key, text, char_index(text, self._area.cursor_location))
        self.vim = step.vim
        match step.request:
            case "pass":
                return False
            case "undo":
                self._area.undo()
            case "redo":
                self._area.redo()
            case "up":
                self._move_up()
            case "down":
                self._move_down()
            case "":
                self._apply_change(text, step.text)
                self._area.move_cursor(text_position(step.text, step.cursor))
        return True

    def _apply_change(self, old_text: str, new_text: str) -> None:
        """Replace only the part of the text that has changed, as a single undo step."""
        if old_text == new_text:
            return
        start = _common_prefix_length(old_text, new_text)
        suffix_length = _common_prefix_length(old_text[start:][::-1], new_text[start:][::-1])
        positions = text_position(old_text, start), text_position(old_text, len(old_text) - suffix_length)
        self._area.history.checkpoint()
        self._area.replace(new_text[start : len(new_text) - suffix_length], *positions, maintain_selection_offset=False)
        self._area.history.checkpoint()


def _common_prefix_length(left: str, right: str) -> int:
    """Count the characters in the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
