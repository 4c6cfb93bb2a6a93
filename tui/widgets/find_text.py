"""Words that are looked for in the transcript. Finding knows blocks and lines of text, not where they are drawn."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from ebbtide.tui.view.block_texts import text_of
from ebbtide.tui.view.blocks import Block

_SIGNS = frozenset("*`_~#>|│─")
"""What is written around words and not drawn, or drawn and not written: it is left out of both."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """One of the places where the words are."""

    row: int
    nth: int
    """Which one it is of those in the row."""


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """A part of a line, in characters."""

    line: int
    start: int
    end: int


def fold_for_search(text: str) -> str:
    """The text as it is compared: without case, signs of markdown, and the difference of blanks and ends of lines."""
    for sign in _SIGNS:
        text = text.replace(sign, "")
    return " ".join(text.lower().split())


class TextFinder:
    """Looks for words, and remembers what blocks say from one search to the next."""

    def __init__(self) -> None:
        self._said: BlockTexts = {}

    def unread(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """The blocks of which it is not known yet what they say."""
        return [block for block in blocks if id(block) not in self._said]

    def learn(self, said: "BlockTexts") -> None:
        """Remembers what blocks say."""
        self._said.update(said)

    def counts(self, blocks: Sequence[Block], words: str) -> tuple[int, ...]:
        """How often the words are in each block. Parts of a block that are folded count as well."""
        wanted = fold_for_search(words)
        if not wanted:
            return (0,) * len(blocks)
        self.learn(texts_of(self.unread(blocks)))
        self._said = {id(block): self._said[id(block)] for block in blocks}
        return tuple(self._said[id(block)][1].count(wanted) for block in blocks)


BlockTexts: TypeAlias = dict[int, tuple[Block, str]]
"""Blocks by their identity, each with what it says as it is compared."""


def texts_of(blocks: Sequence[Block]) -> BlockTexts:
    """What each block says. In any thread: of many blocks that takes a while."""
    return {id(block): (block, fold_for_search(text_of(block))) for block in blocks}


class FoundPositions:
    """The places in rows that hold so many each, counted through. One letter is in as many as there are letters: no
    place is made before it is gone to."""

    def __init__(self, counts: Sequence[int]) -> None:
        self._ends = list(accumulate(counts))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def at(self, index: int) -> FoundText:
        row = bisect_right(self._ends, index)
        return FoundText(row, index - self._before(row))

    def index(self, place: FoundText) -> int | None:
        """None where there is no such place any more."""
        if place.row >= len(self._ends) or place.nth >= self._ends[place.row] - self._before(place.row):
            return None
        return self._before(place.row) + place.nth

    def up_to(self, row: int) -> int:
        """How many there are in that row and above it."""
        return self._ends[min(row, len(self._ends) - 1)] if self._ends else 0

    def _before(self, row: int) -> int:
        return self._ends[row - 1] if row else 0


def spans_of(lines: Sequence[str], words: str) -> tuple[tuple[FoundSpan, ...], ...]:
    """Where the words are in lines as they are drawn: one span, or one a line where they are wrapped."""
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
    """The lines as they are compared, and of each character the line and the column that it is from."""
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
    """The characters from the first to the last of each line."""
    lines = dict.fromkeys(line for line, _ in origins)
    columns = {line: [column for found, column in origins if found == line] for line in lines}
    return tuple(FoundSpan(line, min(found), max(found) + 1) for line, found in columns.items())
