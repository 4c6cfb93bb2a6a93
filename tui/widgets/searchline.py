"""The search field of the transcript."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from ebbtide.tui.text.styles import Palette, clipped_text, palette_of
from ebbtide.tui.view.key_hints import key_lines
from ebbtide.tui.widgets.field import Field

if TYPE_CHECKING:  # a type only: loaded with the first search
    from ebbtide.tui.widgets.transcript_search import FoundWords

_WIDE = 76
"""Minimum width for key hints."""
_KEYS = "Enter older  Shift-Enter newer  Esc back"


class SearchLine(Horizontal):
    DEFAULT_CSS = """
    SearchLine { height: 1; padding: 0 1; background: $surface; }
    SearchLine > Static { width: auto; height: 1; }
    SearchLine > #sought { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    """

    _status: "Callable[[Palette], Text]" = staticmethod(lambda palette: Text())
    """The status at the right, for a palette."""

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def compose(self) -> ComposeResult:
        yield Static(id="search-mark")
        yield Field(id="sought", compact=True, placeholder="find in the conversation")
        yield Static(id="places")

    @property
    def words(self) -> str:
        return self._field.value

    @property
    def is_written(self) -> bool:
        """Whether it has the focus."""
        return self._field.has_focus

    def write(self) -> None:
        """Take the focus, including keys already queued: `focus` would come after them."""
        self.screen.set_focus(self._field)

    def begin(self) -> None:
        """Take the focus; typing replaces the previous words."""
        self._draw()
        self.write()
        self._field.action_select_all()

    def show_found(self, found: "FoundWords", columns: int) -> None:
        """Show the number of matches, and key hints if the width allows."""
        count = f"{found.at:,} of {found.of:,}" if found.of else "not found" if self.words else ""
        keys = key_lines(_KEYS, columns) if columns >= _WIDE else []
        self._set_status(
            lambda palette: Text(f"{count}   " if keys else count, palette.text).append_text(
                clipped_text(keys, palette)
            )
        )

    def show_reading(self) -> None:
        """Show that the text is being read."""
        self._set_status(lambda palette: Text("reading … ", palette.dim))

    def _set_status(self, said: "Callable[[Palette], Text]") -> None:
        self._status = said
        self._draw()

    def _draw(self) -> None:
        palette = palette_of(self.app.theme_variables)
        self.query_one("#search-mark", Static).update(Text("find ", palette.dim))
        self.query_one("#places", Static).update(self._status(palette))

    @property
    def _field(self) -> Field:
        return self.query_one(Field)
