"""Rows with text selection, and functions for styling strips."""

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ebbtide.tui.text.styles import Palette
from ebbtide.tui.view.blocks import MODEL_BAR, USER_BAR
from ebbtide.tui.widgets.row_stack import RowStack


class SelectableRows(ScrollView):
    """Rows whose drawn text can be selected, including parts that are scrolled out of view."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._stack = RowStack()
        self._palette: Palette | None = None

    @property
    def allow_select(self) -> bool:
        return True

    def _with_selection(self, strip: Strip, y: int) -> Strip:
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None or self._palette is None:
            return strip
        text = strip.text
        start, end = span[0], len(text.rstrip()) if span[1] == -1 else span[1]
        return with_style_on_range(strip, start, end, self._palette.selected)

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Get the selected text as it is drawn."""
        if not self._stack.rows:
            return None
        first_line = selection.start.y if selection.start is not None else 0
        last_line = selection.end.y if selection.end is not None else self._stack.height - 1
        lines = [self._plain_line(y) for y in range(first_line, last_line + 1)]
        if selection.end is not None and lines:
            lines[-1] = lines[-1][: selection.end.x]
        if selection.start is not None and lines:
            lines[0] = lines[0][selection.start.x :]
        return "\n".join(line.rstrip() for line in lines), "\n"

    def _plain_line(self, y: int) -> str:
        index, line = self._stack.locate(y)
        strips = self._stack.draw(index)
        text = strips[line].text if line < len(strips) else ""
        return f" {text[1:]}" if text[:1] in (USER_BAR, MODEL_BAR) else text


def with_style(strip: Strip, style: Style) -> Strip:
    return Strip(Segment.apply_style(strip, post_style=style), strip.cell_length)


def with_style_on_range(strip: Strip, start: int, end: int, style: Style) -> Strip:
    """Apply a style to the characters from `start` to `end` (exclusive)."""
    text = strip.text
    left, right = cell_len(text[:start]), cell_len(text[:end])
    if left >= right:
        return strip
    pieces = strip.divide([left, right, strip.cell_length])
    return Strip.join([pieces[0], with_style(pieces[1], style), *pieces[2:]])
