"""Notices that a question covers, shown in it."""

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from tui.text.sanitise import visible_line
from tui.text.styles import palette_of
from tui.view.permission import lines_taken


class ToldLines(Static):
    """The newest of what the user was told, one below the other; nothing where nothing was."""

    DEFAULT_CSS = "ToldLines { height: auto; }"

    def __init__(self, told: Sequence[str] = (), most: int = 6) -> None:
        super().__init__()
        self._told = tuple(told)
        self._most = most

    def on_mount(self) -> None:
        self.show_at_most(self._most)

    def lines_at(self, width: int) -> int:
        """How many lines it takes where so many columns are for it."""
        many = min(self._most, len(self._told))
        return lines_taken(f"· {visible_line(self._told[-1])}", width) if many == 1 else many

    def tell(self, told: Sequence[str]) -> None:
        """Shows these notices in place of those before."""
        self._told = tuple(told)
        self.show_at_most(self._most)

    def show_at_most(self, lines: int) -> None:
        """Shows the newest notices, a line each; all of them stand in the conversation below."""
        self._most = lines
        shown = self._told[max(0, len(self._told) - lines) :]
        self.display = bool(shown)
        text = Text("\n".join(f"· {visible_line(text)}" for text in shown), palette_of(self.app.theme_variables).dim)
        text.no_wrap = len(shown) > 1
        self.update(text)
