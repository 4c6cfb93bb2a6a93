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
    MAX_INITIAL_ROWS,
    DiffLayout,
    FileRow,
    GapRow,
    build_code_layout,
    build_diff_layout,
    change_range,
    without_file_name,
)
from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.styles import Palette, get_palette
from ebbtide.tui.text.unified_diff import FileDiff


class DiffView(ScrollView, can_focus=True):
    """Shows a diff, side by side if it is wide enough, otherwise unified. Long content is cut off until the user asks
    for more."""

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
        self._make_layout: Callable[[int, int], DiffLayout] = lambda width, max_rows: DiffLayout()
        self._max_rows = MAX_INITIAL_ROWS
        self._layout = DiffLayout()
        self._rendered_diff: RenderedDiff | None = None
        self._palette: Palette | None = None
        self._drawn_width = 0
        """The width that was last drawn."""

    def show_diff(self, files: Sequence[FileDiff], *, is_named: bool = False) -> None:
        """Show a diff. `is_named`: whether the diff has only one file, and its name is shown elsewhere."""
        change_layout: Callable[[DiffLayout], DiffLayout] = without_file_name if is_named else lambda layout: layout
        self._show(
            lambda width, max_rows: change_layout(
                build_diff_layout(files, width=width, max_rows=max_rows, hint="; press m for more")
            )
        )

    def show_code(self, text: str, language: str, marks: Sequence[tuple[int, int]] = ()) -> None:
        """Show code. `marks`: ranges of the text to highlight."""
        self._show(lambda width, max_rows: build_code_layout(text, language, max_rows, "; press m for more", marks))

    def _show(self, make_layout: Callable[[int, int], DiffLayout]) -> None:
        self._make_layout, self._max_rows = make_layout, MAX_INITIAL_ROWS
        self._draw(self._width)
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.refresh(layout=True)

    def action_more(self) -> None:
        """Show twice as many lines."""
        if self._layout.omitted_count:
            self._max_rows *= 2
            self._draw(self._width)
            self.refresh(layout=True)

    def next_change(self, step: int) -> None:
        """Go to the next or previous hunk or file."""
        if self._rendered_diff is None:
            return
        starts = [
            self._rendered_diff.first_line_of(index)
            for index, row in enumerate(self._layout.rows)
            if isinstance(row, FileRow | GapRow) or index == 0
        ]
        y = self.scroll_offset.y
        targets = [start for start in starts if (start > y if step > 0 else start < y)]
        if targets:
            self.scroll_to(y=targets[0] if step > 0 else targets[-1], animate=False, force=True, immediate=True)

    def scroll_to_change(self, index: int = 0) -> None:
        """Scroll to a change, with as many lines before it as fit."""
        first_index, end_index = change_range(self._layout.rows, index)
        if self._rendered_diff is None or end_index <= first_index:
            return
        starts = [self._rendered_diff.first_line_of(index) for index in range(first_index + 1)]
        bottom = (
            self._rendered_diff.first_line_of(end_index)
            if end_index < len(self._layout.rows)
            else self._rendered_diff.line_count
        )
        top = next((start for start in starts if start >= bottom - self.size.height), starts[-1])
        self.scroll_to(y=top, animate=False, force=True, immediate=True)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _draw(self, width: int) -> None:
        """Draw for a width, keeping the top row of the screen where it is."""
        top_row = self._rendered_diff.row_index_at(self.scroll_offset.y) if self._rendered_diff is not None else 0
        previous_layout = self._layout
        self._palette = get_palette(self.app.theme_variables)
        self._layout = self._make_layout(width, self._max_rows)
        self._rendered_diff = RenderedDiff(self._layout, width, PaletteConsole(self._palette))
        self._drawn_width = width
        self.virtual_size = Size(width, self._rendered_diff.line_count)
        if previous_layout.rows and top_row:
            self.scroll_to(y=self._rendered_diff.first_line_of(top_row), animate=False, force=True, immediate=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._drawn_width or self._rendered_diff is None:
            self._draw(width)
        return self._rendered_diff.line_count if self._rendered_diff is not None else 0

    def on_resize(self) -> None:
        if self._width != self._drawn_width:
            self._draw(self._width)
            self.refresh()

    def notify_style_update(self) -> None:
        """Redraw in the colours of the new theme."""
        super().notify_style_update()
        if self._rendered_diff is not None and get_palette(self.app.theme_variables) != self._palette:
            self._draw(self._drawn_width)

    def render_line(self, y: int) -> Strip:
        width = self._width
        if self._rendered_diff is None or self._drawn_width != width:
            self._draw(width)
        index = y + self.scroll_offset.y
        if self._rendered_diff is None or index >= self._rendered_diff.line_count:
            return Strip.blank(width, self.rich_style)
        line: list[Segment] = self._rendered_diff.get_line(index)
        return Strip(line).adjust_cell_length(width).apply_style(self.rich_style)
