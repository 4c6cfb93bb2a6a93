"""An active search in the transcript."""

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
    """Number of the current match, from 1; 0 if there is none."""
    of: int = 0


class TranscriptSearch:
    """The matches and the current one. A collapsed block is expanded while it has the current match."""

    def __init__(self, stack: RowStack, finder: TextFinder, bottom: int, origin: tuple[bool, tuple[int, int]]) -> None:
        """`bottom`: the last visible row; `origin`: the position to return to."""
        self.origin = origin
        self._stack, self._bottom = stack, bottom
        self._finder = finder
        self._words = ""
        self._here: FoundText | None = None
        self._opened: BlockRow | None = None
        self._drawn: dict[int, _MarkedRow] = {}
        """Match ranges in drawn rows, by row number."""

    def look_for(self, words: str) -> FoundWords:
        """Search for the words, starting at the last match at or above the bottom of the screen."""
        self._words = words
        self._drawn.clear()
        places = self._places()
        self._here = places.at(max(0, places.up_to(self._bottom) - 1)) if places else None
        return self._found_words(places)

    def shift_rows(self, rows: int) -> None:
        """Shift row numbers: rows were inserted at the top."""
        following, (row, line) = self.origin
        self.origin, self._bottom = (following, (row + rows, line)), self._bottom + rows
        self._drawn.clear()
        if self._here is not None:
            self._here = FoundText(self._here.row + rows, self._here.nth)

    def move(self, step: int) -> FoundWords:
        """Go to another match, wrapping around."""
        places = self._places()
        at = places.index(self._here) if self._here is not None else None
        if not places:
            self._here = None
        else:
            self._here = places.at((at + step) % len(places) if at is not None else len(places) - 1)
        return self._found_words(places)

    def unfold(self) -> tuple[int, int] | None:
        """The row and line of the current match; expands the row if necessary."""
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
        """Collapse what the search expanded."""
        if self._opened is not None and self._opened.opened:
            self._opened.toggle()
            self._stack.refold()
        self._opened = None

    def spans_on(self, row: int, line: int) -> tuple[tuple[FoundSpan, bool], ...]:
        """The ranges to highlight on a line of a row, and which is the current match."""
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
    """The match ranges in the lines of a row."""

    strips: list[Strip]
    """The lines that were searched."""
    spans: tuple[tuple[FoundSpan, ...], ...]
    """The ranges of each match, in order."""
    by_line: Mapping[int, Sequence[tuple[int, FoundSpan]]]
    """The ranges of each line, with the index of the match."""


def _marked_in(strips: list[Strip], words: str) -> _MarkedRow:
    spans = spans_of([strip.text for strip in strips], words)
    by_line: dict[int, list[tuple[int, FoundSpan]]] = {}
    for nth, parts in enumerate(spans):
        for span in parts:
            by_line.setdefault(span.line, []).append((nth, span))
    return _MarkedRow(strips, spans, by_line)
