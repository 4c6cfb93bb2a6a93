"""A long list with one marked line."""

from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.widgets.selection import with_style


class Listing(ScrollView, can_focus=True):
    """A list of lines. They are drawn on demand, so it can be very long."""

    class RowHighlighted(Message):
        """Another line was marked."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.marked_index = 0
        self._count = 0
        self._paint_line: Callable[[int, int], Text] = lambda index, width: Text()

    def show(self, count: int, paint_line: Callable[[int, int], Text]) -> None:
        """Show `count` lines and mark the first. `paint_line` draws the line at an index for a width."""
        self.marked_index = 0
        self.replace_lines(count, paint_line)
        self.scroll_to(y=0, animate=False, force=True, immediate=True)
        self.post_message(self.RowHighlighted())

    def replace_lines(self, count: int, paint_line: Callable[[int, int], Text]) -> None:
        """Replace the lines, keeping the mark and the scroll position."""
        self._count = count
        self._paint_line = paint_line
        self.marked_index = max(0, min(self.marked_index, count - 1))
        self.virtual_size = Size(self.scrollable_content_region.width, count)
        self.refresh()

    def move_mark(self, step: int) -> None:
        """Move the mark by that many lines, stopping at the first or last one."""
        self._mark(self.marked_index + step)

    def _mark(self, index: int) -> None:
        index = max(0, min(index, self._count - 1))
        if index == self.marked_index or not self._count:
            return
        self.marked_index = index
        self._scroll_to_marked()
        self.refresh()
        self.post_message(self.RowHighlighted())

    def _scroll_to_marked(self) -> None:
        """Scroll to the marked line. If it is one of the first two, scroll to the top, because the first may be a
        heading. Does nothing before the first layout."""
        if height := self.size.height:
            top = min(self.marked_index, max(self.scroll_offset.y, self.marked_index - height + 1))
            top = 0 if self.marked_index < min(2, height) else top
            self.scroll_to(y=top, animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.scrollable_content_region.width, self._count)
        self._scroll_to_marked()

    def on_click(self, event: events.Click) -> None:
        self._mark(event.y + self.scroll_offset.y)

    def render_line(self, y: int) -> Strip:
        index, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if index >= self._count:
            return Strip.blank(width, self.rich_style)
        text = self._paint_line(index, width)
        text.truncate(max(1, width), overflow="ellipsis")
        strip = Strip(text.render(self.app.console)).adjust_cell_length(width)
        strip = strip.apply_style(self.rich_style)
        return (
            with_style(strip, get_palette(self.app.theme_variables).selected) if index == self.marked_index else strip
        )
