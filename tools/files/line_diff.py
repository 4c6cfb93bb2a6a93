"""Diffs of two lists of lines. Lines that occur once on each side are anchors. Small gaps between anchors are compared
line by line; a large gap without anchors counts as replaced, so that no input takes long."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_COMPARED_PAIRS = 10_000
"""Maximum number of line pairs in a gap that is compared line by line."""
MAX_COMPARISON_STEPS = 10_000_000
"""Maximum number of steps for line-by-line comparison; gaps that would exceed it count as replaced."""
MAX_DIVISION_DEPTH = 12
"""Maximum depth of nested divisions."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range on one side that is replaced by a range on the other side. Either range may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def differing_regions(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the differing regions in order. The lines between them are equal."""
    found: list[Region] = []
    pending = [(Region(0, len(old), 0, len(new)), 0)]
    steps_left = MAX_COMPARISON_STEPS
    while pending:
        region, depth = pending.pop()
        region = _trim_common(region, old, new)
        if region.old_start == region.old_end and region.new_start == region.new_end:
            continue
        sizes = region.old_end - region.old_start, region.new_end - region.new_start
        if 0 in sizes:
            found.append(region)
        elif sizes[0] * sizes[1] <= MAX_COMPARED_PAIRS:
            steps_left -= _max_steps(region, old, new)
            found += _compare_lines(region, old, new) if steps_left > 0 else [region]
        else:
            between = _between_anchors(region, old, new) if depth < MAX_DIVISION_DEPTH else []
            if between:
                pending += [(part, depth + 1) for part in reversed(between)]
            else:
                found.append(region)
    return _merge_adjacent(found)


def _trim_common(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> Region:
    """Return the region without its common prefix and suffix."""
    start, new_start, end, new_end = region.old_start, region.new_start, region.old_end, region.new_end
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while end > start and new_end > new_start and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Region(start, end, new_start, new_end)


def _max_steps(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Return the maximum number of steps to compare a region."""
    there = Counter(new[region.new_start : region.new_end])
    alike = sum(there[line] for line in old[region.old_start : region.old_end])
    sizes = region.old_end - region.old_start, region.new_end - region.new_start
    return (alike + max(sizes)) * min(sizes)


def _compare_lines(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only diffs need it

    matcher = SequenceMatcher(
        None, old[region.old_start : region.old_end], new[region.new_start : region.new_end], autojunk=False
    ).get_opcodes()
    return [
        Region(region.old_start + i, region.old_start + j, region.new_start + k, region.new_start + m)
        for tag, i, j, k, m in matcher
        if tag != "equal"
    ]


def _between_anchors(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the regions between anchors: lines that occur once on each side, in the same order. Empty if there are no
    anchors."""
    old_counts = Counter(old[region.old_start : region.old_end])
    new_counts = Counter(new[region.new_start : region.new_end])
    new_indices = {
        new[index]: index for index in range(region.new_start, region.new_end) if new_counts[new[index]] == 1
    }
    pairs = [
        (index, new_indices[old[index]])
        for index in range(region.old_start, region.old_end)
        if old_counts[old[index]] == 1 and old[index] in new_indices
    ]
    parts, start, new_start = [], region.old_start, region.new_start
    anchors = _longest_increasing(pairs)
    for index, place in anchors:
        parts.append(Region(start, index, new_start, place))
        start, new_start = index + 1, place + 1
    return [*parts, Region(start, region.old_end, new_start, region.new_end)] if anchors else []


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of the pairs that increases on both sides."""
    ends: list[int] = []
    last: list[int] = []
    """For each length, the pair with the smallest right side that ends an increasing sequence of that length."""
    predecessors: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        predecessors.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
    found, at = [], last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = predecessors[at]
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
