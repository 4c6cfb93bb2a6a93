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
"""Indices of a removed and an added line; None if a line has no counterpart."""

MAX_COMPARED_CHARS = 2_000
"""Maximum number of characters in a line that is compared word by word."""
MAX_COMPARED_PAIRS = 400
"""Maximum number of pairs of lines compared in one change."""
_MIN_SIMILARITY = 0.5
_MAX_COMPARED_WORD_PAIRS = 10_000
"""Maximum number of pairs of words compared. If two lines have more, everything between their common beginning and end
counts as changed."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class ChangedRanges:
    old: tuple[CharRange, ...]
    new: tuple[CharRange, ...]


def changed_ranges(old: str, new: str) -> ChangedRanges | None:
    """Return the changed ranges of two lines; None if they are too different."""
    if max(len(old), len(new)) > MAX_COMPARED_CHARS or not _are_similar(_word_counts(old), _word_counts(new)):
        return None
    before, after = _WORD.findall(old), _WORD.findall(new)
    head = _common_prefix_length(before, after)
    tail = _common_prefix_length(before[head:][::-1], after[head:][::-1])
    middle, new_middle = before[head : len(before) - tail], after[head : len(after) - tail]
    if len(middle) * len(new_middle) > _MAX_COMPARED_WORD_PAIRS:
        changed = [("replace", 0, len(middle), 0, len(new_middle))]
    else:
        changed = [
            code for code in SequenceMatcher(None, middle, new_middle, False).get_opcodes() if code[0] != "equal"
        ]
    return ChangedRanges(
        _char_ranges(before, [(head + i, head + j) for _, i, j, _, _ in changed]),
        _char_ranges(after, [(head + i, head + j) for _, _, _, i, j in changed]),
    )


def pair_lines(
    removed: Sequence[str], added: Sequence[str], max_compared_pairs: int = MAX_COMPARED_PAIRS
) -> list[Pair]:
    """Pair the lines of a change, in order. If there are few enough lines to compare, similar ones are paired; if not,
    lines are paired by position."""
    if not removed or not added or len(removed) * len(added) > max_compared_pairs:
        size = max(len(removed), len(added))
        return [(at if at < len(removed) else None, at if at < len(added) else None) for at in range(size)]
    pairs: list[Pair] = []
    old = new = 0
    for i, j in (*_similar_pairs(removed, added), (len(removed), len(added))):
        # Unpaired removed and added lines also share rows, which saves space.
        gap = pair_lines(removed[old:i], added[new:j], 0)
        pairs += [(None if a is None else a + old, None if b is None else b + new) for a, b in gap]
        pairs += [(i, j)] if i < len(removed) else []
        old, new = i + 1, j + 1
    return pairs


def _similar_pairs(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Return the pairs of similar lines, in order, with the greatest total similarity."""
    before, after = [_word_counts(line) for line in removed], [_word_counts(line) for line in added]
    best = [[0.0] * (len(after) + 1) for _ in range(len(before) + 1)]
    similarity = [[_similarity(one, other) for other in after] for one in before]
    for i in range(len(before) - 1, -1, -1):
        for j in range(len(after) - 1, -1, -1):
            together = similarity[i][j] + best[i + 1][j + 1] if similarity[i][j] >= _MIN_SIMILARITY else 0.0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(before) and j < len(after):
        if similarity[i][j] >= _MIN_SIMILARITY and best[i][j] == similarity[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _word_counts(line: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(line[:MAX_COMPARED_CHARS]) if not word.isspace())


def _similarity(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0


def _are_similar(one: Counter[str], other: Counter[str]) -> bool:
    return _similarity(one, other) >= _MIN_SIMILARITY


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of words in the common prefix."""
    count = 0
    for word, same in zip(one, other, strict=False):
        if word != same:
            break
        count += 1
    return count


def _char_ranges(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> tuple[CharRange, ...]:
    """Return the character ranges of word ranges, merged if only whitespace is between them."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans: list[CharRange] = []
    for first, behind in ranges:
        if first == behind:
            continue
        span = (starts[first], starts[behind])
        if spans and "".join(words)[spans[-1][1] : span[0]].isspace():
            span = (spans.pop()[0], span[1])
        spans.append(span)
    return tuple(spans)
