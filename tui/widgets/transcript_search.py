"""A search in the transcript that is going on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.strip import Strip

from ebbtide.tui.view.blocks import is_expandable
from ebbtide.tui.widgets.find_text import FoundPositions, FoundSpan, FoundText, TextFinder, spans_of
from ebbtide.tui.widgets.row import BlockRow
from ebbtide.tui.widgets.row_stack import RowStack


@dataclass(frozen=True, slots=True)
class FoundWords:
    at: int = 0
    """Which place is gone to, counted from one; 0 when there is none."""
    of: int = 0


class TranscriptSearch:
    """The places where words are, one of which is gone to. What is folded there is open as long as it is."""

    def __init__(self, stack: RowStack, finder: TextFinder, bottom: int, origin: tuple[bool, tuple[int, int]]) -> None:
        """`bottom` is the last row that was on the screen, `origin` where to go back to."""
        self.origin = origin
        self._stack, self._bottom = stack, bottom
        self._finder = finder
        self._words = ""
        self._here: FoundText | None = None
        self._opened: BlockRow | None = None
        self._drawn: dict[int, _MarkedRow] = {}
        """Where the words are in the lines of rows, by the rows' numbers."""

    def look_for(self, words: str) -> FoundWords:
        """Starts at the last place that was on the screen or above it."""
        self._words = words
        self._drawn.clear()
        places = self._places()
        self._here = places.at(max(0, places.up_to(self._bottom) - 1)) if places else None
        return self._found_words(places)

    def shift_rows(self, rows: int) -> None:
        """So many rows have come above all that there were."""
        following, (row, line) = self.origin
        self.origin, self._bottom = (following, (row + rows, line)), self._bottom + rows
        self._drawn.clear()
        if self._here is not None:
            self._here = FoundText(self._here.row + rows, self._here.nth)

    def move(self, step: int) -> FoundWords:
        """Goes on to another place, around at the ends."""
        places = self._places()
        at = places.index(self._here) if self._here is not None else None
        if not places:
            self._here = None
        else:
            self._here = places.at((at + step) % len(places) if at is not None else len(places) - 1)
        return self._found_words(places)

    def unfold(self) -> tuple[int, int] | None:
        """The row and the line that are gone to, opened if the words are not to be seen otherwise."""
        here, rows = self._here, self._stack.rows
        if here is None or here.row >= len(rows):
            self.fold()
            return None
        row = rows[here.row]
        if row is not self._opened:
            self.fold()
        in_title = sum(spans[0].line == row.gap for spans in self._spans(here.row))
        if here.nth >= in_title and is_expandable(row.block) and not row.opened:
            row.toggle()
            self._stack.refold()
            self._opened = row
        spans = self._spans(here.row)
        return here.row, spans[min(here.nth, len(spans) - 1)][0].line if spans else row.gap

    def fold(self) -> None:
        """Closes what the search has opened."""
        if self._opened is not None and self._opened.opened:
            self._opened.toggle()
            self._stack.refold()
        self._opened = None

    def spans_on(self, row: int, line: int) -> tuple[tuple[FoundSpan, bool], ...]:
        """What is to be marked on a line of a row, and whether it is the place that is gone to."""
        marked = self._marked_row(row)
        here = self._here.nth if self._here is not None and self._here.row == row else -1
        at = min(here, len(marked.spans) - 1)
        return tuple((span, nth == at) for nth, span in marked.by_line.get(line, ()))

    def _spans(self, row: int) -> tuple[tuple[FoundSpan, ...], ...]:
        return self._marked_row(row).spans

    def _marked_row(self, row: int) -> "_MarkedRow":
        strips = self._stack.draw(row)
        known = self._drawn.get(row)
        if known is None or known.strips is not strips:
            known = self._drawn[row] = _marked_in(strips, self._words)
        return known

    def _places(self) -> FoundPositions:
        return FoundPositions(self._finder.counts([row.block for row in self._stack.rows], self._words))

    def _found_words(self, places: FoundPositions) -> FoundWords:
        at = places.index(self._here) if self._here is not None else None
        return FoundWords(at + 1 if at is not None else 0, len(places))


@dataclass(frozen=True, slots=True)
class _MarkedRow:
    """Where the words are in the lines of a row."""

    strips: list[Strip]
    """The lines in which that was found."""
    spans: tuple[tuple[FoundSpan, ...], ...]
    """Of each place, in order."""
    by_line: Mapping[int, Sequence[tuple[int, FoundSpan]]]
    """Those of each line, with the number of the place."""


def _marked_in(strips: list[Strip], words: str) -> _MarkedRow:
    spans = spans_of([strip.text for strip in strips], words)
    by_line: dict[int, list[tuple[int, FoundSpan]]] = {}
    for nth, parts in enumerate(spans):
        for span in parts:
            by_line.setdefault(span.line, []).append((nth, span))
    return _MarkedRow(strips, spans, by_line)
