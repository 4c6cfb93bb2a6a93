"""The indicator for new content below the visible lines."""

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import clipped_text, get_palette


class NewContentIndicator(Widget):
    """A short note at the bottom, shown while there is unseen content below. Clicking it jumps there."""

    DEFAULT_CSS = """
    NewContentIndicator {
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
        """The user wants to jump to the new content."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._count = 0

    def show(self, count: int) -> None:
        """Show the number of new blocks. Hides the note at 0."""
        self._count = count
        self.display = count > 0
        self.refresh(layout=True)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return clipped_text(
            (indicator_line(self._count, container.width),), get_palette(self.app.theme_variables)
        ).cell_len

    def render(self) -> Text:
        return clipped_text((indicator_line(self._count, self.size.width),), get_palette(self.app.theme_variables))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.JumpRequested())


def indicator_line(count: int, width: int) -> Line:
    """Format the number of new blocks and the key that jumps to them, shortened to fit. At least the arrow is left."""
    lines: tuple[Line, ...] = (
        ((f"↓ {count:,} new below", "accent"), ("  End", "dim")),
        ((f"↓ {count:,} new", "accent"),),
        ((f"↓ {count:,}", "accent"),),
    )
    for line in lines:
        if sum(len(text) for text, _ in line) <= width:
            return line
    return (("↓", "accent"),)
