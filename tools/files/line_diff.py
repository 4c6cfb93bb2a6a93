"""Diffs of two lists of lines. Lines that occur once on each side are anchors. Small gaps between them are compared
line by line, and large gaps without anchors count as replaced, so that no input takes long."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_CLOSE_PAIRS = 10_000
"""Maximum number of line pairs in a gap that is compared line by line."""
MAX_STEPS = 10_000_000
"""Maximum number of steps of line-by-line comparison. Beyond that, gaps count as replaced."""
MAX_DEPTH = 12
"""Maximum number of nested divisions."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range on one side that is replaced with a range on the other. Either may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def differing(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the differences in order. The lines between them are equal."""
    found: list[Region] = []
    left = [(Region(0, len(old), 0, len(new)), 0)]
    patience = MAX_STEPS
    while left:
        stretch, depth = left.pop()
        stretch = _trim_common(stretch, old, new)
        if stretch.old_start == stretch.old_end and stretch.new_start == stretch.new_end:
            continue
        sizes = stretch.old_end - stretch.old_start, stretch.new_end - stretch.new_start
        if 0 in sizes:
            found.append(stretch)
        elif sizes[0] * sizes[1] <= MAX_CLOSE_PAIRS:
            patience -= _steps(stretch, old, new)
            found += _compare_lines(stretch, old, new) if patience > 0 else [stretch]
        else:
            between = _between_anchors(stretch, old, new) if depth < MAX_DEPTH else []
            if between:
                left += [(part, depth + 1) for part in reversed(between)]
            else:
                found.append(stretch)
    return _merge_adjacent(found)


def _trim_common(at: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> Region:
    """Return the region without its common prefix and suffix."""
    start, new_start, end, new_end = at.old_start, at.new_start, at.old_end, at.new_end
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while end > start and new_end > new_start and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Region(start, end, new_start, new_end)


def _steps(at: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Return the maximum number of steps to compare a region."""
    there = Counter(new[at.new_start : at.new_end])
    alike = sum(there[line] for line in old[at.old_start : at.old_end])
    sizes = at.old_end - at.old_start, at.new_end - at.new_start
    return (alike + max(sizes)) * min(sizes)


def _compare_lines(at: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only diffs need it

    matcher = SequenceMatcher(
        None, old[at.old_start : at.old_end], new[at.new_start : at.new_end], autojunk=False
    ).get_opcodes()
    return [
        Region(at.old_start + i, at.old_start + j, at.new_start + k, at.new_start + m)
        for tag, i, j, k, m in matcher
        if tag != "equal"
    ]


def _between_anchors(at: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the regions between lines that occur once on each side, in the same order. Empty if there are none."""
    old_counts = Counter(old[at.old_start : at.old_end])
    new_counts = Counter(new[at.new_start : at.new_end])
    places = {new[index]: index for index in range(at.new_start, at.new_end) if new_counts[new[index]] == 1}
    pairs = [
        (index, places[old[index]])
        for index in range(at.old_start, at.old_end)
        if old_counts[old[index]] == 1 and old[index] in places
    ]
    parts, start, new_start = [], at.old_start, at.new_start
    anchors = _rising(pairs)
    for index, place in anchors:
        parts.append(Region(start, index, new_start, place))
        start, new_start = index + 1, place + 1
    return [*parts, Region(start, at.old_end, new_start, at.new_end)] if anchors else []


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of the pairs that increases on both sides."""
    ends: list[int] = []
    last: list[int] = []
    """For each length, the pair with the smallest right side that ends a sequence of that length."""
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
    found, at = [], last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _merge_adjacent(regions: Sequence[Region]) -> list[Region]:
    """Merge adjacent regions."""
    found: list[Region] = []
    for region in regions:
        if found and found[-1].old_end == region.old_start and found[-1].new_end == region.new_start:
            region = Region(found[-1].old_start, region.old_end, found[-1].new_start, region.new_end)
            found.pop()
        found.append(region)
    return found
