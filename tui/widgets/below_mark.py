"""The mark that something came below what is on the screen."""

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import clipped_text, palette_of


class BelowMark(Widget):
    """A few words over the lower edge of what is read, there as long as something below was not seen. A click on them
    asks for it."""

    DEFAULT_CSS = """
    BelowMark {
        layer: over;
        display: none;
        width: auto;
        height: 1;
        max-width: 100%;
        margin: 0 2 0 0;
        padding: 0 1;
        background: $surface;
    }
    """
    ALLOW_SELECT = False

    class JumpRequested(Message):
        """The user wants to see what came."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._count = 0

    def show(self, count: int) -> None:
        """Says that so much came; nothing at all where nothing did."""
        self._count = count
        self.display = count > 0
        self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return clipped_text((below_line(self._count, container.width),), palette_of(self.app.theme_variables)).cell_len

    def render(self) -> Text:
        return clipped_text((below_line(self._count, self.size.width),), palette_of(self.app.theme_variables))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.JumpRequested())


def below_line(count: int, width: int) -> Line:
    """How much came, and the key that goes there: as much of it as the columns hold, at least the arrow."""
    lines: tuple[Line, ...] = (
        ((f"↓ {count:,} new below", "accent"), ("  End", "dim")),
        ((f"↓ {count:,} new", "accent"),),
        ((f"↓ {count:,}", "accent"),),
    )
    for line in lines:
        if sum(len(words) for words, _ in line) <= width:
            return line
    return (("↓", "accent"),)
