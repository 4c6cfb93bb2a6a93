"""The greeting of an empty transcript, line by line."""

from collections.abc import Callable

from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual.geometry import Size
from textual.strip import Strip


class GreetingLines:
    """A greeting at the bottom of a widget. Its lines are cached for the last size."""

    def __init__(self, draw: Callable[[int, int], Text] = lambda width, height: Text()) -> None:
        """`draw` is called with the numbers of columns and lines."""
        self._draw = draw
        self._size = Size(0, 0)
        self._lines: list[Text] = []

    def strip(self, y: int, size: Size, console: Console, base_style: Style) -> Strip:
        """Return one line of a widget of this size."""
        if self._size != size:
            self._size, self._lines = size, list(self._draw(*size).split("\n"))
        y -= max(0, size.height - len(self._lines) - 1)
        if not 0 <= y < len(self._lines):
            return Strip.blank(size.width, base_style)
        line = self._lines[y]
        line.truncate(max(1, size.width))
        return Strip(line.render(console)).crop_extend(0, size.width, base_style).apply_style(base_style)
