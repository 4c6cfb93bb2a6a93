"""The bottom line of a dialog, with key hints or a message."""

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from ebbtide.tui.text.spans import TextStyle, parse_inline_code
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.key_hints import key_hint_lines


class KeyLine(Widget):
    """A line of key hints, which takes up as many rows as it needs. A message replaces the hints until they are shown
    again."""

    DEFAULT_CSS = "KeyLine { height: auto; width: 1fr; }"

    def __init__(self, key_hints: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text = key_hints
        self._message_style: TextStyle | None = None

    @property
    def has_message(self) -> bool:
        return self._message_style is not None

    def show(self, key_hints: str) -> None:
        """Show key hints: phrases separated by two spaces."""
        self._set_text(key_hints, None)

    def show_message(self, text: str, style: TextStyle = "dim") -> None:
        """Show a message instead of the hints."""
        self._set_text(text, style)

    def _set_text(self, text: str, style: TextStyle | None) -> None:
        self.text, self._message_style = text, style
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, self._rendered_text(width).plain.count("\n") + 1)

    def render(self) -> Text:
        return self._rendered_text(self.size.width)

    def _rendered_text(self, width: int) -> Text:
        palette = get_palette(self.app.theme_variables)
        if self._message_style is None:
            return clipped_text(key_hint_lines(self.text, width), palette)
        message = clipped_text([parse_inline_code(self.text, self._message_style)], palette)
        return Text("\n").join(message.wrap(self.app.console, max(width, 1), overflow="fold", no_wrap=False))
