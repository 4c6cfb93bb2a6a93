"""Pairs removed lines with added lines and finds the words that changed."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

CharRange: TypeAlias = tuple[int, int]
"""Start and end of a range in a line."""
LinePair: TypeAlias = tuple[int | None, int | None]
"""Indices of a removed and an added line; None if a line has no counterpart."""

MAX_COMPARED_CHARS = 2_000
"""Maximum length, in characters, of a line that is compared word by word."""
MAX_COMPARED_PAIRS = 400
"""Maximum number of line pairs compared in one change."""
_MIN_SIMILARITY = 0.5
_MAX_COMPARED_WORD_PAIRS = 10_000
"""Maximum number of word pairs compared. If two lines have more, everything between their common start and end counts
as changed."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class ChangedRanges:
    old: tuple[CharRange, ...]
    new: tuple[CharRange, ...]


def find_changed_ranges(old: str, new: str) -> ChangedRanges | None:
    """Find the ranges that differ between two lines; None if the lines are too different."""
    if max(len(old), len(new)) > MAX_COMPARED_CHARS or not _are_similar(_word_counts(old), _word_counts(new)):
        return None
    old_words, new_words = _WORD.findall(old), _WORD.findall(new)
    prefix_length = _common_prefix_length(old_words, new_words)
    suffix_length = _common_prefix_length(old_words[prefix_length:][::-1], new_words[prefix_length:][::-1])
    old_middle = old_words[prefix_length : len(old_words) - suffix_length]
    new_middle = new_words[prefix_length : len(new_words) - suffix_length]
    if len(old_middle) * len(new_middle) > _MAX_COMPARED_WORD_PAIRS:
        changed_opcodes = [("replace", 0, len(old_middle), 0, len(new_middle))]
    else:
        changed_opcodes = [
            opcode
            for opcode in SequenceMatcher(None, old_middle, new_middle, False).get_opcodes()
            if opcode[0] != "equal"
        ]
    return ChangedRanges(
        _char_ranges(
            old_words, [(prefix_length + start, prefix_length + end) for _, start, end, _, _ in changed_opcodes]
        ),
        _char_ranges(
            new_words, [(prefix_length + start, prefix_length + end) for _, _, _, start, end in changed_opcodes]
        ),
    )


def pair_lines(
    removed: Sequence[str], added: Sequence[str], max_compared_pairs: int = MAX_COMPARED_PAIRS
) -> list[LinePair]:
    """Pair the lines of a change, keeping their order. Similar lines are paired if there are few enough to compare;
    otherwise, lines are paired by position."""
    if not removed or not added or len(removed) * len(added) > max_compared_pairs:
        row_count = max(len(removed), len(added))
        return [
            (index if index < len(removed) else None, index if index < len(added) else None)
            for index in range(row_count)
        ]
    pairs: list[LinePair] = []
    old_start = new_start = 0
    for old_index, new_index in (*_find_similar_pairs(removed, added), (len(removed), len(added))):
        # Lines without a similar counterpart are paired too, so that they share rows and save space.
        gap_pairs = pair_lines(removed[old_start:old_index], added[new_start:new_index], 0)
        pairs += [
            (
                None if old_offset is None else old_offset + old_start,
                None if new_offset is None else new_offset + new_start,
            )
            for old_offset, new_offset in gap_pairs
        ]
        pairs += [(old_index, new_index)] if old_index < len(removed) else []
        old_start, new_start = old_index + 1, new_index + 1
    return pairs


def _find_similar_pairs(removed: Sequence[str], added: Sequence[str]) -> list[tuple[int, int]]:
    """Choose which similar lines to pair, keeping their order, so that the total similarity is greatest."""
    old_counts, new_counts = [_word_counts(line) for line in removed], [_word_counts(line) for line in added]
    best_totals = [[0.0] * (len(new_counts) + 1) for _ in range(len(old_counts) + 1)]
    similarity = [[_similarity(old_count, new_count) for new_count in new_counts] for old_count in old_counts]
    for old_index in range(len(old_counts) - 1, -1, -1):
        for new_index in range(len(new_counts) - 1, -1, -1):
            paired_total = (
                similarity[old_index][new_index] + best_totals[old_index + 1][new_index + 1]
                if similarity[old_index][new_index] >= _MIN_SIMILARITY
                else 0.0
            )
            best_totals[old_index][new_index] = max(
                paired_total, best_totals[old_index + 1][new_index], best_totals[old_index][new_index + 1]
            )
    pairs, old_index, new_index = [], 0, 0
    while old_index < len(old_counts) and new_index < len(new_counts):
        if (
            similarity[old_index][new_index] >= _MIN_SIMILARITY
            and best_totals[old_index][new_index]
            == similarity[old_index][new_index] + best_totals[old_index + 1][new_index + 1]
        ):
            pairs.append((old_index, new_index))
            old_index, new_index = old_index + 1, new_index + 1
        elif best_totals[old_index + 1][new_index] >= best_totals[old_index][new_index + 1]:
            old_index += 1
        else:
            new_index += 1
    return pairs


def _word_counts(line: str) -> Counter[str]:
    return Counter(word for word in _WORD.findall(line[:MAX_COMPARED_CHARS]) if not word.isspace())


def _similarity(left: Counter[str], right: Counter[str]) -> float:
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 1.0


def _are_similar(left: Counter[str], right: Counter[str]) -> bool:
    return _similarity(left, right) >= _MIN_SIMILARITY


def _common_prefix_length(left: Sequence[str], right: Sequence[str]) -> int:
    """Count the words in the common prefix."""
    count = 0
    for left_word, right_word in zip(left, right, strict=False):
        if left_word != right_word:
            break
        count += 1
    return count


def _char_ranges(words: Sequence[str], ranges: Sequence[tuple[int, int]]) -> tuple[CharRange, ...]:
    """Convert ranges of words to ranges of characters. Ranges separated only by whitespace are merged."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans: list[CharRange] = []
    for first_word, end_word in ranges:
        if first_word == end_word:
            continue
        span = (starts[first_word], starts[end_word])
        if spans and "".join(words)[spans[-1][1] : span[0]].isspace():
            span = (spans.pop()[0], span[1])
        spans.append(span)
    return tuple(spans)
