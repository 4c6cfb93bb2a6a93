"""Scrollable rows, of which only the visible ones are drawn."""

from typing import Any

from rich.style import Style
from textual.geometry import Size

from ebbtide.tui.text.styles import Palette, palette_of
from ebbtide.tui.widgets.selection import SelectableRows


class ScrolledRows(SelectableRows):
    """Draws only visible rows and estimates other heights. The visible lines stay in place when rows above change;
    at the end, the view follows new rows."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._following = True
        self._anchor = (0, 0)
        """The top row and how many of its lines are above the screen, if not following."""
        self._settling = False
        self._margins_due = False
        self._base: Style | None = None
        """The widget's own style, cached because it is expensive per line."""

    # Public methods

    def page(self, direction: int) -> None:
        """Scroll one screen up (-1) or down (1), with an overlap of two lines."""
        self._go_to(self.scroll_offset.y + direction * max(1, self.size.height - 2))

    def go_home(self) -> None:
        self._go_to(0)

    def go_end(self) -> None:
        self._following = True
        self._settle()

    @property
    def following(self) -> bool:
        """Whether the view follows new blocks at the end."""
        return self._following

    # Positions of rows

    @property
    def _width(self) -> int:
        return self._stack.width

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Place the rows during layout. At the resize event a frame with the old width would already have been
        drawn."""
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        width = self.scrollable_content_region.width
        is_other = self._stack.inks is not None and self._stack.inks.height != self.app.size.height
        if is_other and self._palette is not None:
            self._ink(self._palette)
        if width != self._width:
            self._stack.resize(width)
        if changed or is_other:
            self._settle()
        return changed

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling and round(old_value) != round(new_value):
            self._following = round(new_value) >= self.max_scroll_y
            self._anchor = self._stack.locate(round(new_value))
            self._settle()

    def _scroll_to(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        animate: bool = True,
        **how: Any,  # noqa: ANN401  # Textual's
    ) -> bool:
        """Scroll without animation, also for built-in keys: drawing changes positions, which would end an animation
        midway."""
        return super()._scroll_to(x, y, animate=False, **how)

    def _settle(self) -> None:
        """Draw the visible rows and place everything by their real heights."""
        if self._width <= 0 or self._settling or (self._stack.rows and not self._has_inks()):
            return
        self._settling = True
        try:
            if self._following:
                self._stack.measure(range(len(self._stack.rows) - 1, -1, -1), self.size.height)
            else:
                index, offset = self._anchor
                self._stack.measure(range(index, len(self._stack.rows)), self.size.height + offset)
            self._place()
            self._following = self.scroll_offset.y >= self.max_scroll_y  # the screen may have grown down to the end
        finally:
            self._settling = False
        self._after_settle()
        if not self._margins_due:
            self._margins_due = True
            self.call_after_refresh(self._settle_margins)

    def _settle_margins(self) -> None:
        """Draw one screen above and below, so that the next page does not move."""
        self._margins_due = False
        if self._width <= 0 or not self._stack.rows:
            return
        page = self.size.height
        top, _ = self._stack.locate(self.scroll_offset.y)
        bottom, _ = self._stack.locate(self.scroll_offset.y + page)
        self._settling = True
        try:
            changed = self._stack.measure(range(top, -1, -1), 2 * page)
            changed = self._stack.measure(range(bottom, len(self._stack.rows)), page) or changed
            if changed:
                self._place()
        finally:
            self._settling = False

    def _place(self) -> None:
        """Scroll so that the visible lines stay in place."""
        rows, size = self._stack.rows, Size(self._width, self._stack.height)
        if size != self.virtual_size:
            # Not by assignment, which would lay out the whole screen again.
            self.set_reactive(ScrolledRows.virtual_size, size)
            self._scroll_update(size)
        if self._following:
            y = self.max_scroll_y
        else:
            index, offset = self._anchor
            index = max(0, min(index, len(rows) - 1))
            y = self._stack.start(index) + (min(offset, max(0, rows[index].height - 1)) if rows else 0)
        self._scroll_now(y)

    def _after_settle(self) -> None:
        """Called when all rows are placed."""

    def _hold(self, index: int, offset: int) -> None:
        """Scroll a line of a row to the top of the screen, or as far as possible."""
        self._anchor, self._following = (index, offset), False
        self._settle()

    def _go_to(self, y: int) -> None:
        self._scroll_now(max(0, min(y, self.max_scroll_y)))

    def _scroll_now(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    # Colours

    def notify_style_update(self) -> None:
        """Called when a theme or a style has changed."""
        super().notify_style_update()
        self._base = None
        palette = palette_of(self.app.theme_variables)
        if palette != self._palette:
            self._palette = palette
            if self._stack.inks is not None:
                self._ink(palette)
            self.refresh()

    def _has_inks(self) -> bool:
        if self._stack.inks is None and self.is_attached:
            self._ink(self._palette or palette_of(self.app.theme_variables))
        return self._stack.inks is not None

    def _ink(self, palette: Palette) -> None:
        from ebbtide.tui.render.prose import PaletteConsole  # noqa: PLC0415  # deferred: with the first block

        self._stack.recolor(PaletteConsole(palette, self.app.size.height))
