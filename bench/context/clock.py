"""Corrects the times of a recording's rows, so that they never decrease. Pure.

The times of most rows are right, so the longest non-decreasing subsequence of them is kept, and of several the one with
the shortest span. Without it, a single output with a time 12 hours ahead would either hide all pauses of the next 12
hours or pull all earlier rows ahead. The other times are moved next to the kept ones: those ahead before the next kept
time, the others after the previous one. Pauses between moved rows are kept where there is room, because a clock that is
set back still measures pauses."""

from collections.abc import Sequence
from itertools import groupby, pairwise


def correct_times(times: Sequence[float | None]) -> tuple[list[float], int]:
    """Return the corrected times, and how many were out of order. A missing time (None) becomes that of the previous
    row."""
    present = [at for at in times if at is not None]
    ordered = _ordered_indexes(present)
    corrected = _with_moved(present, ordered)
    filled: list[float] = []
    position = 0
    for at in times:
        position += at is not None
        filled.append(corrected[max(position - 1, 0)] if corrected else 0.0)
    return filled, len(present) - len(ordered)


def _ordered_indexes(times: Sequence[float]) -> set[int]:
    """Return the indexes of the longest non-decreasing subsequence; of several, of the one with the shortest span."""
    ranks = {at: rank for rank, at in enumerate(sorted(set(times)), 1)}
    none = (0, 0.0, 0)
    best = [none] * (len(ranks) + 1)
    """A Fenwick tree of the best subsequence so far by the rank of its last time: length, first time, negative last
    index."""
    found: list[tuple[int, float, int]] = []
    """The best subsequence that ends with each time: length, first time, previous index."""
    for index, at in enumerate(times):
        rank, before = ranks[at], none
        while rank:
            before = max(before, best[rank])
            rank &= rank - 1
        length, first, previous = before
        found.append((length + 1, first if length else at, -previous))
        rank = ranks[at]
        while rank < len(best):
            best[rank] = max(best[rank], (found[-1][0], found[-1][1], -index))
            rank += rank & -rank
    ordered = set[int]()
    if found:
        last = max(range(len(found)), key=lambda index: (found[index][0], found[index][1] - times[index]))
        for _ in range(found[last][0]):
            ordered.add(last)
            last = found[last][2]
    return ordered


def _with_moved(times: Sequence[float], ordered: set[int]) -> list[float]:
    """Return the times, with those that are out of order moved between their neighbours."""
    corrected: list[float] = []
    for is_ordered, group in groupby(range(len(times)), key=ordered.__contains__):
        run = [times[index] for index in group]
        if is_ordered:
            corrected += run
            continue
        offsets = [0.0]
        for one, another in pairwise(run):
            offsets.append(offsets[-1] + max(another - one, 0.0))
        end = len(corrected) + len(run)
        low = corrected[-1] if corrected else float("-inf")
        high = times[end] if end < len(times) else float("inf")
        start = high - offsets[-1] if run[0] > high or not corrected else low
        corrected += [min(max(start + offset, low), high) for offset in offsets]
    return corrected
