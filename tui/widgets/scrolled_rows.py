"""Scrollable rows. Only the visible ones are drawn."""

from typing import Any

from rich.style import Style
from textual.geometry import Size

from ebbtide.tui import render
from ebbtide.tui.text.styles import Palette, get_palette
from ebbtide.tui.widgets.selection import SelectableRows


class ScrolledRows(SelectableRows):
    """Rows of which only the visible ones are drawn. The heights of rows that have not been drawn are estimates. If
    rows above change, the visible lines stay where they are. When scrolled to the bottom, the view follows new rows."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._is_following = True
        self._top_position = (0, 0)
        """The top row, and how many of its lines are above the screen. Not used while the view follows new rows."""
        self._is_placing = False
        self._is_margin_drawing_due = False
        self._base_style: Style | None = None
        """The widget's own style. Cached, because computing it for each line is slow."""

    # Public methods

    def scroll_page(self, direction: int) -> None:
        """Scroll one screen up (-1) or down (1), keeping two of the lines visible."""
        self._scroll_to_line(self.scroll_offset.y + direction * max(1, self.size.height - 2))

    def go_to_start(self) -> None:
        self._scroll_to_line(0)

    def go_to_end(self) -> None:
        self._is_following = True
        self._place_rows()

    @property
    def is_following(self) -> bool:
        """Whether the view is at the end and follows new blocks."""
        return self._is_following

    # Positions of rows

    @property
    def _width(self) -> int:
        return self._stack.width

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Place the rows during layout. If this waited for the resize event, a frame with the old width would be drawn
        first."""
        has_changed = super()._size_updated(size, virtual_size, container_size, layout)
        width = self.scrollable_content_region.width
        has_height_changed = self._stack.console is not None and self._stack.console.height != self.app.size.height
        if has_height_changed and self._palette is not None:
            self._set_palette(self._palette)
        if width != self._width:
            self._stack.resize(width)
        if has_changed or has_height_changed:
            self._place_rows()
        return has_changed

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._is_placing and round(old_value) != round(new_value):
            self._is_following = round(new_value) >= self.max_scroll_y
            self._top_position = self._stack.locate(round(new_value))
            self._place_rows()

    def _scroll_to(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        animate: bool = True,
        **options: Any,  # noqa: ANN401  # Textual's
    ) -> bool:
        """Scroll without animation, even for Textual's own keys. Drawing moves rows, which would stop a running
        animation."""
        return super()._scroll_to(x, y, animate=False, **options)

    def _place_rows(self) -> None:
        """Draw the visible rows, and position all rows by the heights known so far."""
        if self._width <= 0 or self._is_placing or (self._stack.rows and not self._prepare_console()):
            return
        self._is_placing = True
        try:
            if self._is_following:
                self._stack.measure(range(len(self._stack.rows) - 1, -1, -1), self.size.height)
            else:
                index, offset = self._top_position
                self._stack.measure(range(index, len(self._stack.rows)), self.size.height + offset)
            self._restore_scroll_position()
            self._is_following = self.scroll_offset.y >= self.max_scroll_y  # the view may now be at the end
        finally:
            self._is_placing = False
        self._after_placing()
        if not self._is_margin_drawing_due:
            self._is_margin_drawing_due = True
            self.call_after_refresh(self._draw_margins)

    def _draw_margins(self) -> None:
        """Draw the rows within one screen above and below, so that scrolling by a page does not move rows."""
        self._is_margin_drawing_due = False
        if self._width <= 0 or not self._stack.rows:
            return
        page_height = self.size.height
        top, _ = self._stack.locate(self.scroll_offset.y)
        bottom, _ = self._stack.locate(self.scroll_offset.y + page_height)
        self._is_placing = True
        try:
            has_changed = self._stack.measure(range(top, -1, -1), 2 * page_height)
            has_changed = self._stack.measure(range(bottom, len(self._stack.rows)), page_height) or has_changed
            if has_changed:
                self._restore_scroll_position()
        finally:
            self._is_placing = False

    def _restore_scroll_position(self) -> None:
        """Scroll so that the visible lines stay where they are."""
        rows, size = self._stack.rows, Size(self._width, self._stack.height)
        if size != self.virtual_size:
            # Assigning `virtual_size` would lay out the whole screen again.
            self.set_reactive(ScrolledRows.virtual_size, size)
            self._scroll_update(size)
        if self._is_following:
            y = self.max_scroll_y
        else:
            index, offset = self._top_position
            index = max(0, min(index, len(rows) - 1))
            y = self._stack.start_line(index) + (min(offset, max(0, rows[index].height - 1)) if rows else 0)
        self._scroll_now(y)

    def _after_placing(self) -> None:
        """Called after all rows have been placed."""

    def _scroll_to_row(self, index: int, offset: int) -> None:
        """Scroll so that a line of a row is at the top of the screen, or as close to it as possible."""
        self._top_position, self._is_following = (index, offset), False
        self._place_rows()

    def _scroll_to_line(self, y: int) -> None:
        self._scroll_now(max(0, min(y, self.max_scroll_y)))

    def _scroll_now(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    # Colours

    def notify_style_update(self) -> None:
        """Called when a theme or a style has changed."""
        super().notify_style_update()
        self._base_style = None
        palette = get_palette(self.app.theme_variables)
        if palette != self._palette:
            self._palette = palette
            if self._stack.console is not None:
                self._set_palette(palette)
            self.refresh()

    def _prepare_console(self) -> bool:
        if self._stack.console is None and self.is_attached:
            self._set_palette(self._palette or get_palette(self.app.theme_variables))
        return self._stack.console is not None

    def _set_palette(self, palette: Palette) -> None:
        self._stack.set_console(render.themed_markdown.PaletteConsole(palette, self.app.size.height))
