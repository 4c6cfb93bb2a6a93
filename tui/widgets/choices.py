"""The list of a question's choices."""

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.widgets.selection import with_style


class ChoiceList(ScrollView, can_focus=False):
    """Lines of choices, scrolled to the marked one."""

    DEFAULT_CSS = """
    ChoiceList { height: auto; overflow-x: hidden; scrollbar-size-vertical: 1; background: $background; }
    """

    class Clicked(Message):
        """A choice was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[tuple[int, Line]] = ()
        self._marked_index = 0

    def show(self, rows: Sequence[tuple[int, Line]], marked_index: int) -> None:
        """Replace the lines and scroll to the choice at `marked_index`."""
        self._rows, self._marked_index = rows, marked_index
        self.virtual_size = Size(self.size.width, len(rows))
        self._scroll_to_marked()
        self.refresh()

    def _scroll_to_marked(self) -> None:
        height = self.size.height
        marked_lines = [y for y, (index, _) in enumerate(self._rows) if index == self._marked_index]
        if height and marked_lines:
            top = self.scroll_offset.y
            top = min(marked_lines[0], max(top, marked_lines[-1] - height + 1))
            self.scroll_to(y=max(0, min(top, len(self._rows) - height)), animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._rows))
        self._scroll_to_marked()

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        if 0 <= y < len(self._rows):
            self.post_message(self.Clicked(self._rows[y][0]))

    def render_line(self, y: int) -> Strip:
        index, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        choice_index, line = self._rows[index]
        palette = get_palette(self.app.theme_variables)
        strip = Strip(clipped_text([line], palette).render(self.app.console)).adjust_cell_length(width)
        strip = strip.apply_style(self.rich_style)
        return with_style(strip, palette.selected) if choice_index == self._marked_index else strip
