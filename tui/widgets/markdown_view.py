"""A scrollable Markdown view."""

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ebbtide.tui.render.blocks import AnswerPainter
from ebbtide.tui.render.diff_lines import SegmentLine
from ebbtide.tui.render.prose import PaletteConsole
from ebbtide.tui.text.styles import Palette, palette_of


class MarkdownView(ScrollView, can_focus=False):
    """Draws the text once for each width."""

    DEFAULT_CSS = """
    MarkdownView {
        height: 1fr;
        background: $background;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """

    def __init__(self, text: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text = text
        self._lines: list[SegmentLine] = []
        self._at_width: dict[int, list[SegmentLine]] = {}
        """Cached lines by width: layout asks for widths with and without scrollbar again and again."""
        self._palette: Palette | None = None
        self._drawn_at = 0
        """The width of the last drawing."""

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _draw(self, width: int) -> None:
        """Draw for a width, keeping the approximate position."""
        before, y = len(self._lines), self.scroll_offset.y
        self._lines, self._drawn_at = self._lines_for(width), width
        self.virtual_size = Size(width, len(self._lines))
        if before and y:
            self.scroll_to(y=y * len(self._lines) // before, animate=False, force=True, immediate=True)

    def _lines_for(self, width: int) -> list[SegmentLine]:
        palette = palette_of(self.app.theme_variables)
        if palette != self._palette:
            self._at_width.clear()
            self._palette = palette
        if width not in self._at_width:
            drawn = AnswerPainter(width, PaletteConsole(palette)).draw(self._text)
            self._at_width = {**dict(list(self._at_width.items())[-1:]), width: drawn}
        return self._at_width[width]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines_for(width))

    def on_resize(self) -> None:
        if self._width != self._drawn_at:
            self._draw(self._width)
            self.refresh()

    def notify_style_update(self) -> None:
        """Redraw: a new theme has other colours."""
        super().notify_style_update()
        if self._lines and palette_of(self.app.theme_variables) != self._palette:
            self._draw(self._drawn_at)

    def render_line(self, y: int) -> Strip:
        width = self._width
        if self._drawn_at != width:
            self._draw(width)
        index = y + self.scroll_offset.y
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        return Strip(self._lines[index]).adjust_cell_length(width).apply_style(self.rich_style)
