"""A scrollable Markdown view."""

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ebbtide.tui.render.blocks import AnswerRenderer
from ebbtide.tui.render.diff_lines import SegmentLine
from ebbtide.tui.render.themed_markdown import PaletteConsole
from ebbtide.tui.text.styles import Palette, get_palette


class MarkdownView(ScrollView, can_focus=False):
    """A Markdown view. The text is drawn once per width."""

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
        self._lines_by_width: dict[int, list[SegmentLine]] = {}
        """Drawn lines by width. Cached, because layout repeatedly asks for the widths with and without a scrollbar."""
        self._palette: Palette | None = None
        self._drawn_width = 0
        """The width that was last drawn."""

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _draw(self, width: int) -> None:
        """Draw for a width, keeping the scroll position approximately."""
        previous_count, y = len(self._lines), self.scroll_offset.y
        self._lines, self._drawn_width = self._render_lines(width), width
        self.virtual_size = Size(width, len(self._lines))
        if previous_count and y:
            self.scroll_to(y=y * len(self._lines) // previous_count, animate=False, force=True, immediate=True)

    def _render_lines(self, width: int) -> list[SegmentLine]:
        palette = get_palette(self.app.theme_variables)
        if palette != self._palette:
            self._lines_by_width.clear()
            self._palette = palette
        if width not in self._lines_by_width:
            rendered_lines = AnswerRenderer(width, PaletteConsole(palette), grows=False).render(self._text)
            self._lines_by_width = {**dict(list(self._lines_by_width.items())[-1:]), width: rendered_lines}
        return self._lines_by_width[width]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._render_lines(width))

    def on_resize(self) -> None:
        if self._width != self._drawn_width:
            self._draw(self._width)
            self.refresh()

    def notify_style_update(self) -> None:
        """Redraw in the colours of the new theme."""
        super().notify_style_update()
        if self._lines and get_palette(self.app.theme_variables) != self._palette:
            self._draw(self._drawn_width)

    def render_line(self, y: int) -> Strip:
        width = self._width
        if self._drawn_width != width:
            self._draw(width)
        index = y + self.scroll_offset.y
        if index >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        return Strip(self._lines[index]).adjust_cell_length(width).apply_style(self.rich_style)
