"""The strips of a block whose text grows."""

from typing import Protocol

from rich.segment import Segment
from textual.strip import Strip


class GrowingRenderer(Protocol):
    """Renders a growing text, of which only the last lines change."""

    @property
    def finished_line_count(self) -> int: ...
    def render(self, text: str) -> list[list[Segment]]: ...


class GrowingStrips:
    """The strips of a growing text. Strips of unchanged lines are kept, because Textual caches in them how they look on
    the screen."""

    def __init__(self, renderer: GrowingRenderer) -> None:
        self._renderer = renderer
        self._strips: list[Strip] = []

    def draw(self, text: str) -> list[Strip]:
        """Draw text, which must begin with the text from the previous call."""
        first_index = min(self._renderer.finished_line_count, len(self._strips))
        new_lines = self._renderer.render(text)[first_index:]
        previous_strips = self._strips[first_index : first_index + len(new_lines)]
        unchanged_count = next(
            (index for index, strip in enumerate(previous_strips) if list(strip) != new_lines[index]),
            len(previous_strips),
        )
        self._strips[first_index + unchanged_count :] = map(Strip, new_lines[unchanged_count:])
        return self._strips
