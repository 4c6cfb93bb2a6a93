"""The command palette: whatever can be done, found by a few letters of it."""

from collections.abc import Sequence

from tui.screens.finder import Finder
from tui.view.list_entry import ListEntry


class PaletteScreen(Finder[str]):
    """Gives what is to be done: a command as it could have been typed, or `action:NAME`; empty when nothing is."""

    KEYS = "Up, Down   Enter does it   Esc leaves"

    def __init__(self, entries: Sequence[ListEntry]) -> None:
        super().__init__((("What is to be done?", "strong"),), entries, "Nothing is called that.")

    def taken(self, entry: ListEntry | None) -> None:
        if entry is not None:
            self.dismiss(entry.value)

    def left(self) -> None:
        self.dismiss("")
