"""Connects vi keys to a text area. The keys themselves are in `ebbtide.tui.prompt.vim`."""

from collections.abc import Callable
from itertools import takewhile

from textual import events
from textual.widgets import TextArea

from ebbtide.tui.prompt.key_arrivals import behind_escape
from ebbtide.tui.prompt.vim import Vim, press
from ebbtide.tui.widgets.pasted_units import index_of, location_of


class VimKeys:
    """The vi state of one text area. `up` and `down` leave its first and last line."""

    def __init__(self, area: TextArea, up: Callable[[], object], down: Callable[[], object]) -> None:
        self.vim = Vim()
        self._area = area
        self._up = up
        self._down = down

    @property
    def status_text(self) -> str:
        return self.vim.status_text

    def process_key(self, event: events.Key) -> bool:
        """Handle a key; return whether it had a meaning. Esc followed so quickly by a character that both arrive as
        Alt counts as Esc and the character."""
        if character := behind_escape(event):
            if self.vim.mode == "insert" or self.vim.pending:
                self._press("escape")
            self._press(character)
            return True
        return self._press(event.character if event.is_printable and event.character else event.key)

    def _press(self, key: str) -> bool:
        if self.vim.mode == "normal" and key == "backspace":
            key = "h"
        text = self._area.text
        step = press(self.vim, key, text, index_of(text, self._area.cursor_location))
        self.vim = step.vim
        match step.ask:
            case "pass":
                return False
            case "undo":
                self._area.undo()
            case "redo":
                self._area.redo()
            case "up":
                self._up()
            case "down":
                self._down()
            case "":
                self._become(text, step.text)
                self._area.move_cursor(location_of(step.text, step.cursor))
        return True

    def _become(self, before: str, after: str) -> None:
        """Replace only the changed part, so that it is one undo step."""
        if before == after:
            return
        start = _same(before, after)
        same = _same(before[start:][::-1], after[start:][::-1])
        places = location_of(before, start), location_of(before, len(before) - same)
        self._area.history.checkpoint()
        self._area.replace(after[start : len(after) - same], *places, maintain_selection_offset=False)
        self._area.history.checkpoint()


def _same(one: str, other: str) -> int:
    """The length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
