"""A search in the transcript that is going on. It knows rows, not which of them are on the screen."""

from bisect import bisect_right
from dataclasses import dataclass

from textual.strip import Strip

from tui.blocks import opens
from tui.finding import Finder, Place, Span, spans_of
from tui.rows import Row
from tui.stack import Stack


@dataclass(frozen=True, slots=True)
class Found:
    at: int = 0
    """Which place is gone to, counted from one; 0 when there is none."""
    of: int = 0


class Search:
    """The places where words are, one of which is gone to. What is folded there is open as long as it is."""

    def __init__(self, stack: Stack, bottom: int, origin: tuple[bool, tuple[int, int]]) -> None:
        """`bottom` is the last row that was on the screen, `origin` where to go back to."""
        self.origin = origin
        self._stack, self._bottom = stack, bottom
        self._finder = Finder()
        self._words = ""
        self._here: Place | None = None
        self._opened: Row | None = None
        self._drawn: dict[int, tuple[list[Strip], tuple[tuple[Span, ...], ...]]] = {}
        """Where the words are in the lines of rows, by the rows' numbers, and the lines in which that was found."""

    def look_for(self, words: str) -> Found:
        """Starts at the last place that was on the screen or above it."""
        self._words = words
        self._drawn.clear()
        places = self._places()
        above = bisect_right([place.row for place in places], self._bottom)
        self._here = places[max(0, above - 1)] if places else None
        return self._found(places)

    def move(self, step: int) -> Found:
        """Goes on to another place, around at the ends."""
        places = self._places()
        if not places:
            self._here = None
        elif self._here in places:
            self._here = places[(places.index(self._here) + step) % len(places)]
        else:
            self._here = places[-1]
        return self._found(places)

    def unfold(self) -> tuple[int, int] | None:
        """The row and the line that are gone to, opened if the words are not to be seen otherwise."""
        here, rows = self._here, self._stack.rows
        if here is None or here.row >= len(rows):
            self.fold()
            return None
        row = rows[here.row]
        if row is not self._opened:
            self.fold()
        if here.nth >= len(self._spans(here.row)) and opens(row.block) and not row.opened:
            row.toggle()
            self._opened = row
        spans = self._spans(here.row)
        return here.row, spans[min(here.nth, len(spans) - 1)][0].line if spans else row.gap

    def fold(self) -> None:
        """Closes what the search has opened."""
        if self._opened is not None and self._opened.opened:
            self._opened.toggle()
        self._opened = None

    def spans_on(self, row: int, line: int) -> tuple[tuple[Span, bool], ...]:
        """What is to be marked on a line of a row, and whether it is the place that is gone to."""
        here = self._here.nth if self._here is not None and self._here.row == row else -1
        spans = self._spans(row)
        return tuple(
            (span, nth == min(here, len(spans) - 1))
            for nth, parts in enumerate(spans)
            for span in parts
            if span.line == line
        )

    def _spans(self, row: int) -> tuple[tuple[Span, ...], ...]:
        strips = self._stack.draw(row)
        known = self._drawn.get(row)
        if known is None or known[0] is not strips:
            known = self._drawn[row] = strips, spans_of([strip.text for strip in strips], self._words)
        return known[1]

    def _places(self) -> tuple[Place, ...]:
        return self._finder.places([row.block for row in self._stack.rows], self._words)

    def _found(self, places: tuple[Place, ...]) -> Found:
        return Found(places.index(self._here) + 1 if self._here in places else 0, len(places))
