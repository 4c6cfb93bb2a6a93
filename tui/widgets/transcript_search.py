"""An active search in the transcript."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.strip import Strip

from ebbtide.tui.view.blocks import is_expandable
from ebbtide.tui.widgets.row import BlockRow
from ebbtide.tui.widgets.row_stack import RowStack
from ebbtide.tui.widgets.text_finder import MatchNumbers, MatchSpan, TextFinder, TextMatch, match_spans


@dataclass(frozen=True, slots=True)
class SearchResult:
    match_number: int = 0
    """Number of the current match, from 1; 0 if there is none."""
    total: int = 0


class TranscriptSearch:
    """The matches of a search. If the current match is in a collapsed block, the block is expanded until another match
    becomes the current one."""

    def __init__(
        self, stack: RowStack, finder: TextFinder, bottom_row: int, origin: tuple[bool, tuple[int, int]]
    ) -> None:
        """`bottom_row`: the last visible row. `origin`: the position to return to, and whether the view followed new
        blocks there."""
        self.origin = origin
        self._stack, self._bottom_row = stack, bottom_row
        self._finder = finder
        self._search_text = ""
        self._current_match: TextMatch | None = None
        self._expanded_row: BlockRow | None = None
        self._matches_by_row: dict[int, _RowMatches] = {}
        """The matches in rows that were drawn, by row index."""

    def search(self, text: str) -> SearchResult:
        """Search for `text`. The last match in or above the last visible row becomes the current one."""
        self._search_text = text
        self._matches_by_row.clear()
        numbers = self._match_numbers()
        self._current_match = numbers.match_at(max(0, numbers.count_up_to(self._bottom_row) - 1)) if numbers else None
        return self._result(numbers)

    def shift_rows(self, row_count: int) -> None:
        """Adjust row indexes after rows were inserted at the top."""
        is_following, (row, line) = self.origin
        self.origin, self._bottom_row = (is_following, (row + row_count, line)), self._bottom_row + row_count
        self._matches_by_row.clear()
        if self._current_match is not None:
            self._current_match = TextMatch(self._current_match.row_index + row_count, self._current_match.match_index)

    def move_to_match(self, step: int) -> SearchResult:
        """Go to the next or previous match, wrapping around."""
        numbers = self._match_numbers()
        index = numbers.index_of(self._current_match) if self._current_match is not None else None
        if not numbers:
            self._current_match = None
        else:
            self._current_match = numbers.match_at(
                (index + step) % len(numbers) if index is not None else len(numbers) - 1
            )
        return self._result(numbers)

    def expand_current_match(self) -> tuple[int, int] | None:
        """Find the row and line of the current match, expanding the row if necessary; None if there is no match."""
        match, rows = self._current_match, self._stack.rows
        if match is None or match.row_index >= len(rows):
            self.collapse_expanded_row()
            return None
        row = rows[match.row_index]
        if row is not self._expanded_row:
            self.collapse_expanded_row()
        title_match_count = sum(spans[0].line == row.blank_lines_above for spans in self._spans(match.row_index))
        if match.match_index >= title_match_count and is_expandable(row.block) and not row.is_expanded:
            row.toggle()
            self._stack.regroup()
            self._expanded_row = row
        spans = self._spans(match.row_index)
        return match.row_index, spans[min(match.match_index, len(spans) - 1)][
            0
        ].line if spans else row.blank_lines_above

    def collapse_expanded_row(self) -> None:
        """Collapse the row that the search expanded, if any."""
        if self._expanded_row is not None and self._expanded_row.is_expanded:
            self._expanded_row.toggle()
            self._stack.regroup()
        self._expanded_row = None

    def spans_in_line(self, row: int, line: int) -> tuple[tuple[MatchSpan, bool], ...]:
        """Get the ranges to highlight in a line of a row. Each has a flag that says whether it belongs to the current
        match."""
        row_matches = self._row_matches(row)
        current_index = (
            self._current_match.match_index
            if self._current_match is not None and self._current_match.row_index == row
            else -1
        )
        match_index = min(current_index, len(row_matches.spans) - 1)
        return tuple((span, index == match_index) for index, span in row_matches.by_line.get(line, ()))

    def _spans(self, row: int) -> tuple[tuple[MatchSpan, ...], ...]:
        return self._row_matches(row).spans

    def _row_matches(self, row: int) -> "_RowMatches":
        strips = self._stack.draw(row)
        row_matches = self._matches_by_row.get(row)
        if row_matches is None or row_matches.strips is not strips:
            row_matches = self._matches_by_row[row] = _find_row_matches(strips, self._search_text)
        return row_matches

    def _match_numbers(self) -> MatchNumbers:
        return MatchNumbers(self._finder.match_counts([row.block for row in self._stack.rows], self._search_text))

    def _result(self, numbers: MatchNumbers) -> SearchResult:
        index = numbers.index_of(self._current_match) if self._current_match is not None else None
        return SearchResult(index + 1 if index is not None else 0, len(numbers))


@dataclass(frozen=True, slots=True)
class _RowMatches:
    """The ranges of matches in the lines of a row."""

    strips: list[Strip]
    """The lines that were searched."""
    spans: tuple[tuple[MatchSpan, ...], ...]
    """The ranges of each match, in order."""
    by_line: Mapping[int, Sequence[tuple[int, MatchSpan]]]
    """The ranges in each line, each with the index of its match."""


def _find_row_matches(strips: list[Strip], search_text: str) -> _RowMatches:
    spans = match_spans([strip.text for strip in strips], search_text)
    by_line: dict[int, list[tuple[int, MatchSpan]]] = {}
    for match_index, match_ranges in enumerate(spans):
        for span in match_ranges:
            by_line.setdefault(span.line, []).append((match_index, span))
    return _RowMatches(strips, spans, by_line)
