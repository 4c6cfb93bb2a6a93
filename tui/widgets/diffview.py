"""A scrollable diff or code view."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ebbtide.tui.render.diff_lines import RenderedDiff
from ebbtide.tui.render.diff_rows import (
    MAX_ROWS,
    FileRow,
    GapRow,
    Layout,
    code_layout,
    first_change,
    layout_of,
    without_name,
)
from ebbtide.tui.render.prose import PaletteConsole
from ebbtide.tui.text.styles import Palette, palette_of
from ebbtide.tui.text.unified_diff import FileDiff


class DiffView(ScrollView, can_focus=True):
    """Shows a diff unified, or side by side if it fits. Long content is cut until more is requested."""

    DEFAULT_CSS = """
    DiffView {
        height: 1fr;
        background: $background;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "more", show=False),
        Binding("space", "page_down", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lay_out: Callable[[int, int], Layout] = lambda width, most: Layout()
        self._most = MAX_ROWS
        self._layout = Layout()
        self._drawn: RenderedDiff | None = None
        self._palette: Palette | None = None
        self._drawn_at = 0
        """The width of the last drawing."""

    def show_diff(self, files: Sequence[FileDiff], *, is_named: bool = False) -> None:
        """`is_named`: there is one file, whose name is shown elsewhere."""
        told: Callable[[Layout], Layout] = without_name if is_named else lambda layout: layout
        self._show(lambda width, most: told(layout_of(files, width=width, most=most, how="; m shows more")))

    def show_code(self, text: str, language: str, marks: Sequence[tuple[int, int]] = ()) -> None:
        """`marks`: ranges of the text to highlight."""
        self._show(lambda width, most: code_layout(text, language, most, "; m shows more", marks))

    def _show(self, lay_out: Callable[[int, int], Layout]) -> None:
        self._lay_out, self._most = lay_out, MAX_ROWS
        self._draw(self._width)
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.refresh(layout=True)

    def action_more(self) -> None:
        """Show twice as many lines."""
        if self._layout.left_out:
            self._most *= 2
            self._draw(self._width)
            self.refresh(layout=True)

    def next_change(self, step: int) -> None:
        """Go to the next or previous hunk or file."""
        if self._drawn is None:
            return
        starts = [
            self._drawn.start_of(at)
            for at, row in enumerate(self._layout.rows)
            if isinstance(row, FileRow | GapRow) or at == 0
        ]
        y = self.scroll_offset.y
        there = [at for at in starts if (at > y if step > 0 else at < y)]
        if there:
            self.scroll_to(y=there[0] if step > 0 else there[-1], animate=False, force=True, immediate=True)

    def to_change(self) -> None:
        """Scroll to the first change, with as many lines before it as fit."""
        first, end = first_change(self._layout.rows)
        if self._drawn is None or end <= first:
            return
        starts = [self._drawn.start_of(at) for at in range(first + 1)]
        bottom = self._drawn.start_of(end) if end < len(self._layout.rows) else self._drawn.count
        top = next((start for start in starts if start >= bottom - self.size.height), starts[-1])
        self.scroll_to(y=top, animate=False, force=True, immediate=True)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _draw(self, width: int) -> None:
        """Draw for a width, keeping the row at the top."""
        top = self._drawn.row_at(self.scroll_offset.y) if self._drawn is not None else 0
        was = self._layout
        self._palette = palette_of(self.app.theme_variables)
        self._layout = self._lay_out(width, self._most)
        self._drawn = RenderedDiff(self._layout, width, PaletteConsole(self._palette))
        self._drawn_at = width
        self.virtual_size = Size(width, self._drawn.count)
        if was.rows and top:
            self.scroll_to(y=self._drawn.start_of(top), animate=False, force=True, immediate=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._drawn_at or self._drawn is None:
            self._draw(width)
        return self._drawn.count if self._drawn is not None else 0

    def on_resize(self) -> None:
        if self._width != self._drawn_at:
            self._draw(self._width)
            self.refresh()

    def notify_style_update(self) -> None:
        """Redraw: a new theme has other colours."""
        super().notify_style_update()
        if self._drawn is not None and palette_of(self.app.theme_variables) != self._palette:
            self._draw(self._drawn_at)

    def render_line(self, y: int) -> Strip:
        width = self._width
        if self._drawn is None or self._drawn_at != width:
            self._draw(width)
        index = y + self.scroll_offset.y
        if self._drawn is None or index >= self._drawn.count:
            return Strip.blank(width, self.rich_style)
        line: list[Segment] = self._drawn.line(index)
        return Strip(line).adjust_cell_length(width).apply_style(self.rich_style)
