"""Search in the transcript's text, independent of drawing."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from ebbtide.tui.view.block_texts import text_of
from ebbtide.tui.view.blocks import Block

_SIGNS = frozenset("*`_~#>|│─")
"""Markup characters that are written but not drawn, or the other way round; ignored by the search."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """One match."""

    row: int
    nth: int
    """Index of the match in its row."""


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """A range of characters in a line."""

    line: int
    start: int
    end: int


def fold_for_search(text: str) -> str:
    """Normalise text for comparison: ignore case, markdown markup, and differences in whitespace."""
    for sign in _SIGNS:
        text = text.replace(sign, "")
    return " ".join(text.lower().split())


class TextFinder:
    """Searches blocks, caching their text between searches."""

    def __init__(self) -> None:
        self._said: BlockTexts = {}

    def unread(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """The blocks whose text is not cached yet."""
        return [block for block in blocks if id(block) not in self._said]

    def learn(self, said: "BlockTexts") -> None:
        """Cache the text of blocks."""
        self._said.update(said)

    def counts(self, blocks: Sequence[Block], words: str) -> tuple[int, ...]:
        """The number of matches in each block, including collapsed parts."""
        wanted = fold_for_search(words)
        if not wanted:
            return (0,) * len(blocks)
        self.learn(texts_of(self.unread(blocks)))
        self._said = {id(block): self._said[id(block)] for block in blocks}
        return tuple(self._said[id(block)][1].count(wanted) for block in blocks)


BlockTexts: TypeAlias = dict[int, tuple[Block, str]]
"""Blocks by identity, with their normalised text."""


def texts_of(blocks: Sequence[Block]) -> BlockTexts:
    """The normalised text of each block. Thread-safe, since many blocks take a while."""
    return {id(block): (block, fold_for_search(text_of(block))) for block in blocks}


class FoundPositions:
    """Numbers the matches across rows. Positions are computed on demand, because one letter may match very often."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def at(self, index: int) -> FoundText:
        row = bisect_right(self._ends, index)
        return FoundText(row, index - self._before(row))

    def index(self, place: FoundText) -> int | None:
        """Index of a match; None if it no longer exists."""
        if place.row >= len(self._ends) or place.nth >= self._ends[place.row] - self._before(place.row):
            return None
        return self._before(place.row) + place.nth

    def up_to(self, row: int) -> int:
        """Number of matches up to and including that row."""
        return self._ends[min(row, len(self._ends) - 1)] if self._ends else 0

    def _before(self, row: int) -> int:
        return self._ends[row - 1] if row else 0


def spans_of(lines: Sequence[str], words: str) -> tuple[tuple[FoundSpan, ...], ...]:
    """The ranges of the words in drawn lines: one, or one per line if wrapped."""
    wanted = fold_for_search(words)
    if not wanted:
        return ()
    text, origins = _comparable_chars(lines)
    found: list[tuple[FoundSpan, ...]] = []
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        found.append(_spans(origins[at:end]))
        at = text.find(wanted, end)
    return tuple(found)


def _comparable_chars(lines: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The normalised lines, with the original line and column of each character."""
    text: list[str] = []
    origins: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        for column, character in enumerate(f"{line} "):
            if character in _SIGNS or (character.isspace() and (not text or text[-1] == " ")):
                continue
            for lowered in " " if character.isspace() else character.lower():
                text.append(lowered)
                origins.append((number, column))
    return "".join(text), origins


def _spans(origins: Sequence[tuple[int, int]]) -> tuple[FoundSpan, ...]:
    """The ranges of characters, one per line."""
    lines = dict.fromkeys(line for line, _ in origins)
    columns = {line: [column for found, column in origins if found == line] for line in lines}
    return tuple(FoundSpan(line, min(found), max(found) + 1) for line, found in columns.items())
