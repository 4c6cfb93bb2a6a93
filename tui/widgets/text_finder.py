"""Searches the text of the transcript, independently of drawing."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from ebbtide.tui.view.block_texts import block_text
from ebbtide.tui.view.blocks import Block

_IGNORED_CHARS = frozenset("*`_~#>|│─")
"""Characters that the search ignores because they occur only in the source or only on the screen, such as markup."""


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match in the transcript."""

    row_index: int
    match_index: int
    """Index of the match in its row."""


@dataclass(frozen=True, slots=True)
class MatchSpan:
    """A range of characters in a line."""

    line: int
    start: int
    end: int


def fold_for_search(text: str) -> str:
    """Normalise text for comparison: ignore case, Markdown markup and differences in whitespace."""
    for character in _IGNORED_CHARS:
        text = text.replace(character, "")
    return " ".join(text.lower().split())


class TextFinder:
    """Searches blocks, caching their text between searches."""

    def __init__(self) -> None:
        self._texts: BlockTexts = {}

    def uncached_blocks(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Find the blocks whose text is not cached."""
        return [block for block in blocks if id(block) not in self._texts]

    def cache_texts(self, texts: "BlockTexts") -> None:
        """Cache the text of blocks."""
        self._texts.update(texts)

    def match_counts(self, blocks: Sequence[Block], search_text: str) -> tuple[int, ...]:
        """Count the matches in each block, including those in collapsed parts."""
        folded_text = fold_for_search(search_text)
        if not folded_text:
            return (0,) * len(blocks)
        self.cache_texts(normalise_block_texts(self.uncached_blocks(blocks)))
        self._texts = {id(block): self._texts[id(block)] for block in blocks}
        return tuple(self._texts[id(block)][1].count(folded_text) for block in blocks)


BlockTexts: TypeAlias = dict[int, tuple[Block, str]]
"""Blocks with their normalised text, by object id."""


def normalise_block_texts(blocks: Sequence[Block]) -> BlockTexts:
    """Normalise the text of each block. Thread-safe, because this is done in a thread if there are many blocks."""
    return {id(block): (block, fold_for_search(block_text(block))) for block in blocks}


class MatchNumbers:
    """Numbers the matches in all rows. Positions are computed on demand, because a single letter may match very
    often."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def match_at(self, index: int) -> TextMatch:
        row = bisect_right(self._ends, index)
        return TextMatch(row, index - self._count_before(row))

    def index_of(self, match: TextMatch) -> int | None:
        """Find the index of a match among all matches; None if the match no longer exists."""
        if match.row_index >= len(self._ends) or match.match_index >= self._ends[match.row_index] - self._count_before(
            match.row_index
        ):
            return None
        return self._count_before(match.row_index) + match.match_index

    def count_up_to(self, row: int) -> int:
        """Count the matches in all rows up to and including `row`."""
        return self._ends[min(row, len(self._ends) - 1)] if self._ends else 0

    def _count_before(self, row: int) -> int:
        return self._ends[row - 1] if row else 0


def match_spans(lines: Sequence[str], search_text: str) -> tuple[tuple[MatchSpan, ...], ...]:
    """Find the ranges of each match in drawn lines. A match has one range or, if it is wrapped, one per line."""
    folded_text = fold_for_search(search_text)
    if not folded_text:
        return ()
    text, origins = _comparable_chars(lines)
    matches: list[tuple[MatchSpan, ...]] = []
    start = text.find(folded_text)
    while start >= 0:
        end = start + len(folded_text)
        matches.append(_line_spans(origins[start:end]))
        start = text.find(folded_text, end)
    return tuple(matches)


def _comparable_chars(lines: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Normalise the text of lines. Also returns the original line and column of each character."""
    text: list[str] = []
    origins: list[tuple[int, int]] = []
    for line_number, line in enumerate(lines):
        for column, character in enumerate(f"{line} "):
            if character in _IGNORED_CHARS or (character.isspace() and (not text or text[-1] == " ")):
                continue
            for lowered in " " if character.isspace() else character.lower():
                text.append(lowered)
                origins.append((line_number, column))
    return "".join(text), origins


def _line_spans(origins: Sequence[tuple[int, int]]) -> tuple[MatchSpan, ...]:
    """Combine consecutive characters into ranges, one per line."""
    lines = dict.fromkeys(line for line, _ in origins)
    columns = {line: [column for origin_line, column in origins if origin_line == line] for line in lines}
    return tuple(MatchSpan(line, min(line_columns), max(line_columns) + 1) for line, line_columns in columns.items())
