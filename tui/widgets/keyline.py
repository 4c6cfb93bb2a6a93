"""The last line of a dialog: key hints or a message."""

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from ebbtide.tui.text.spans import TextStyle, parse_inline_code
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.key_hints import key_lines


class KeyLine(Widget):
    """Key hints, on as many lines as needed. A message replaces them until they are set again."""

    DEFAULT_CSS = "KeyLine { height: auto; width: 1fr; }"

    def __init__(self, keys: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.said = keys
        self._ink: TextStyle | None = None

    def show(self, keys: str) -> None:
        """Show key hints, phrases separated by two spaces."""
        self._set_text(keys, None)

    def show_message(self, text: str, ink: TextStyle = "dim") -> None:
        """Show a message instead of the hints."""
        self._set_text(text, ink)

    def _set_text(self, said: str, ink: TextStyle | None) -> None:
        self.said, self._ink = said, ink
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, self._painted_text(width).plain.count("\n") + 1)

    def render(self) -> Text:
        return self._painted_text(self.size.width)

    def _painted_text(self, width: int) -> Text:
        palette = palette_of(self.app.theme_variables)
        if self._ink is None:
            return clipped_text(key_lines(self.said, width), palette)
        words = clipped_text([parse_inline_code(self.said, self._ink)], palette)
        return Text("\n").join(words.wrap(self.app.console, max(width, 1), overflow="fold", no_wrap=False))
