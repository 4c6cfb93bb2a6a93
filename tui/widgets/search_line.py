"""The search field of the transcript."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from ebbtide.tui.text.styles import Palette, clipped_text, get_palette
from ebbtide.tui.view.key_hints import key_hint_lines
from ebbtide.tui.widgets.field import Field

if TYPE_CHECKING:  # this module loads with the first search
    from ebbtide.tui.widgets.transcript_search import SearchResult

_MIN_HINTS_WIDTH = 76
"""Minimum width at which key hints are shown."""
_KEY_HINTS = "Enter older  Shift-Enter newer  Esc back"


class SearchLine(Horizontal):
    DEFAULT_CSS = """
    SearchLine { height: 1; padding: 0 1; background: $surface; }
    SearchLine > Static { width: auto; height: 1; }
    SearchLine > #sought { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    """

    _draw_status: "Callable[[Palette], Text]" = staticmethod(lambda palette: Text())
    """Draws the status at the right end, using a palette."""

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def compose(self) -> ComposeResult:
        yield Static(id="search-mark")
        yield Field(id="sought", compact=True, placeholder="find in the conversation")
        yield Static(id="places")

    @property
    def search_text(self) -> str:
        return self._field.value

    @property
    def has_field_focus(self) -> bool:
        """Whether the search field has the focus."""
        return self._field.has_focus

    def focus_field(self) -> None:
        """Take the focus immediately, so that keys already in the queue reach the field. With `focus`, they would
        not."""
        self.screen.set_focus(self._field)

    def open_field(self) -> None:
        """Take the focus and select the previous text, so that typing replaces it."""
        self._draw()
        self.focus_field()
        self._field.action_select_all()

    def show_result(self, result: "SearchResult", width: int) -> None:
        """Show the number of matches, and key hints if there is space."""
        count_text = (
            f"{result.match_number:,} of {result.total:,}" if result.total else "no match" if self.search_text else ""
        )
        hint_lines = key_hint_lines(_KEY_HINTS, width) if width >= _MIN_HINTS_WIDTH else []
        self._set_status(
            lambda palette: Text(f"{count_text}   " if hint_lines else count_text, palette.text).append_text(
                clipped_text(hint_lines, palette)
            )
        )

    def show_reading(self) -> None:
        """Show that the transcript's text is being read."""
        self._set_status(lambda palette: Text("reading … ", palette.dim))

    def _set_status(self, status: "Callable[[Palette], Text]") -> None:
        self._draw_status = status
        self._draw()

    def _draw(self) -> None:
        palette = get_palette(self.app.theme_variables)
        self.query_one("#search-mark", Static).update(Text("find ", palette.dim))
        self.query_one("#places", Static).update(self._draw_status(palette))

    @property
    def _field(self) -> Field:
        return self.query_one(Field)
