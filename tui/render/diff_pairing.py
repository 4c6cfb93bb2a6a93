"""Pairs removed and added lines, and finds the changed words."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

CharRange: TypeAlias = tuple[int, int]
"""Start and end of a range in a line."""
Pair: TypeAlias = tuple[int | None, int | None]
"""Indices of a removed and an added line; None if there is none."""

MAX_COMPARED_CHARS = 2_000
"""Maximum characters of a line whose words are compared."""
MAX_COMPARED_PAIRS = 400
"""Maximum pairs of lines compared per change."""
_MIN_SIMILARITY = 0.5
_MAX_COMPARED_WORDS = 10_000
"""Maximum pairs of words compared; in longer lines the whole middle counts as changed."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Marks:
    old: tuple[CharRange, ...]
    new: tuple[CharRange, ...]


def marks_of(old: str, new: str) -> Marks | None:
    """The changed ranges of two lines; None if they are too different."""
    if max(len(old), len(new)) > MAX_COMPARED_CHARS or not _are_alike(_words(old), _words(new)):
        return None
    before, after = _WORD.findall(old), _WORD.findall(new)
    head = _common_prefix_length(before, after)
    tail = _common_prefix_length(before[head:][::-1], after[head:][::-1])
    middle, new_middle = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(middle) * len(new_middle) > _MAX_COMPARED_WORDS:
        changed = [("replace", 0, len(middle), 0, len(new_middle))]
    else:
        changed = [
            code for code in SequenceMatcher(None, middle, new_middle, False).get_opcodes() if code[0] != "equal"
        ]
    return Marks(
        _spans(before, [(head + i, head + j) for _, i, j, _, _ in changed]),
        _spans(after, [(head + i, head + j) for _, _, _, i, j in changed]),
    )


def pair_lines(removed: Sequence[str], added: Sequence[str], most: int = MAX_COMPARED_PAIRS) -> list[Pair]:
    """The lines of a change side by side, in order: similar lines beside each other if there are few enough,
    otherwise in sequence."""
    if not removed or not added or len(removed) * len(added) > most:
        size = max(len(removed), len(added))
        return [(at if at < len(removed) else None, at if at < len(added) else None) for at in range(size)]
    pairs: list[Pair] = []
    old = new = 0
    for i, j in (*_alike_in_order(removed, added), (len(removed), len(added))):
        # Unpaired lines also share rows, which saves space.
        gap = pair_lines(removed[old:i], added[new:j], 0)
        pairs += [(None if a is None else a + old, None if b is None else b + new) for a, b in gap]
        pairs += [(i, j)] if i < len(removed) else []
        old, new = i + 1, j + 1
    return pairs


def _alike_in_order(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of similar lines that keep the order, most similar first."""
    before, after = [_words(line) for line in removed], [_words(line) for line in added]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    likeness = [[_likeness(one, other) for other in after] for one in before]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            together = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= _MIN_SIMILARITY else 0.0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    found, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        if likeness[i][j] >= _MIN_SIMILARITY and best[i][j] == likeness[i][j] + best[i + 1][j + 1]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _words(line: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(line[:MAX_COMPARED_CHARS]) if not word.isspace())


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0


def _are_alike(one: Counter[str], other: Counter[str]) -> bool:
    return _likeness(one, other) >= _MIN_SIMILARITY


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of words in the common prefix."""
    count = 0
    for word, same in zip(one, other, strict=False):
        if word != same:
            break
        count += 1
    return count


def _spans(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> tuple[CharRange, ...]:
    """The character ranges of words, merged if only whitespace is between them."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    found: list[CharRange] = []
    for first, behind in ranges:
        if first == behind:
            continue
        span = (starts[first], starts[behind])
        if found and "".join(words)[found[-1][1] : span[0]].isspace():
            span = (found.pop()[0], span[1])
        found.append(span)
    return tuple(found)
