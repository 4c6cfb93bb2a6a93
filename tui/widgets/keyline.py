"""The last line of a dialog: which keys there are, or what is to be said just now."""

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from tui.text.inks import Ink, coded
from tui.text.styles import painted, palette_of
from tui.view.key_hints import key_lines


class KeyLine(Widget):
    """As many lines as it takes. It may say something else for a while, until keys are named again."""

    DEFAULT_CSS = "KeyLine { height: auto; width: 1fr; }"

    def __init__(self, keys: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.said = keys
        self._ink: Ink | None = None

    def show(self, keys: str) -> None:
        """Names these keys, in phrases that two blanks divide."""
        self._say(keys, None)

    def tell(self, text: str, ink: Ink = "dim") -> None:
        """Says this in place of the keys."""
        self._say(text, ink)

    def _say(self, said: str, ink: Ink | None) -> None:
        self.said, self._ink = said, ink
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max(1, self._drawn(width).plain.count("\n") + 1)

    def render(self) -> Text:
        return self._drawn(self.size.width)

    def _drawn(self, width: int) -> Text:
        palette = palette_of(self.app.theme_variables)
        if self._ink is None:
            return painted(key_lines(self.said, width), palette)
        words = painted([coded(self.said, self._ink)], palette)
        return Text("\n").join(words.wrap(self.app.console, max(width, 1), overflow="fold", no_wrap=False))
