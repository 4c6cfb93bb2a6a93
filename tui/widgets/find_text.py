"""Search in the text of the transcript, independent of drawing."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from ebbtide.tui.view.block_texts import block_text
from ebbtide.tui.view.blocks import Block

_IGNORED_CHARS = frozenset("*`_~#>|│─")
"""Characters that occur only in the source or only on the screen, such as markup; ignored by the search."""


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A match of the search."""

    row: int
    match_index: int
    """Index of the match in its row."""


@dataclass(frozen=True, slots=True)
class MatchSpan:
    """A range of characters in a line."""

    line: int
    start: int
    end: int


def fold_for_search(text: str) -> str:
    """Normalise text for comparison: ignore case, markdown markup, and differences in whitespace."""
    for character in _IGNORED_CHARS:
        text = text.replace(character, "")
    return " ".join(text.lower().split())


class TextFinder:
    """Searches blocks, and caches their text between searches."""

    def __init__(self) -> None:
        self._texts: BlockTexts = {}

    def uncached_blocks(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Return the blocks whose text is not cached."""
        return [block for block in blocks if id(block) not in self._texts]

    def cache_texts(self, texts: "BlockTexts") -> None:
        """Cache the text of blocks."""
        self._texts.update(texts)

    def match_counts(self, blocks: Sequence[Block], search_text: str) -> tuple[int, ...]:
        """Return the number of matches in each block, including matches in collapsed parts."""
        folded_text = fold_for_search(search_text)
        if not folded_text:
            return (0,) * len(blocks)
        self.cache_texts(search_texts(self.uncached_blocks(blocks)))
        self._texts = {id(block): self._texts[id(block)] for block in blocks}
        return tuple(self._texts[id(block)][1].count(folded_text) for block in blocks)


BlockTexts: TypeAlias = dict[int, tuple[Block, str]]
"""Blocks by identity, with their normalised text."""


def search_texts(blocks: Sequence[Block]) -> BlockTexts:
    """Return the normalised text of each block. Thread-safe, because many blocks are read in a thread."""
    return {id(block): (block, fold_for_search(block_text(block))) for block in blocks}


class MatchNumbers:
    """Numbers the matches of all rows. Positions are computed on demand, because a single letter may match very
    often."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def match_at(self, index: int) -> TextMatch:
        row = bisect_right(self._ends, index)
        return TextMatch(row, index - self._count_before(row))

    def index_of(self, match: TextMatch) -> int | None:
        """Return the index of a match among all matches; None if the match no longer exists."""
        if match.row >= len(self._ends) or match.match_index >= self._ends[match.row] - self._count_before(match.row):
            return None
        return self._count_before(match.row) + match.match_index

    def count_up_to(self, row: int) -> int:
        """Return the number of matches up to and including that row."""
        return self._ends[min(row, len(self._ends) - 1)] if self._ends else 0

    def _count_before(self, row: int) -> int:
        return self._ends[row - 1] if row else 0


def match_spans(lines: Sequence[str], search_text: str) -> tuple[tuple[MatchSpan, ...], ...]:
    """Return the ranges of each match in drawn lines: one range, or one per line if the match is wrapped."""
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
    """Return the normalised text of the lines, with the original line and column of each character."""
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
    """Return the ranges of consecutive characters, one per line."""
    lines = dict.fromkeys(line for line, _ in origins)
    columns = {line: [column for origin_line, column in origins if origin_line == line] for line in lines}
    return tuple(MatchSpan(line, min(line_columns), max(line_columns) + 1) for line, line_columns in columns.items())
