"""Compares two lists of lines. Lines that occur once on each side are anchors. Small gaps between anchors are compared
line by line; a large gap without anchors counts as replaced, so that no input takes long."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_COMPARED_PAIRS = 10_000
"""Gaps with more line pairs than this are not compared line by line."""
MAX_COMPARISON_STEPS = 10_000_000
"""Maximum number of steps for line-by-line comparison. Once they are used up, all further gaps count as replaced."""
MAX_DIVISION_DEPTH = 12
"""Maximum depth of nested divisions at anchors."""


@dataclass(frozen=True, slots=True)
class Region:
    """A range on one side that is replaced by a range on the other side. Either range may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def find_differing_regions(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the differing regions in order. The lines between them are equal."""
    regions: list[Region] = []
    pending = [(Region(0, len(old), 0, len(new)), 0)]
    remaining_steps = MAX_COMPARISON_STEPS
    while pending:
        region, depth = pending.pop()
        region = _trim_common(region, old, new)
        if region.old_start == region.old_end and region.new_start == region.new_end:
            continue
        line_counts = region.old_end - region.old_start, region.new_end - region.new_start
        if 0 in line_counts:
            regions.append(region)
        elif line_counts[0] * line_counts[1] <= MAX_COMPARED_PAIRS:
            remaining_steps -= _max_steps(region, old, new)
            regions += _compare_lines(region, old, new) if remaining_steps > 0 else [region]
        else:
            subregions = _between_anchors(region, old, new) if depth < MAX_DIVISION_DEPTH else []
            if subregions:
                pending += [(subregion, depth + 1) for subregion in reversed(subregions)]
            else:
                regions.append(region)
    return _merge_adjacent(regions)


def _trim_common(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> Region:
    """Remove the common prefix and suffix from the region."""
    start = region.old_start
    new_start = region.new_start
    end = region.old_end
    new_end = region.new_end
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while end > start and new_end > new_start and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Region(start, end, new_start, new_end)


def _max_steps(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """Return an upper bound for the number of steps that comparing a region takes."""
    new_counts = Counter(new[region.new_start : region.new_end])
    equal_pair_count = sum(new_counts[line] for line in old[region.old_start : region.old_end])
    line_counts = region.old_end - region.old_start, region.new_end - region.new_start
    return (equal_pair_count + max(line_counts)) * min(line_counts)


def _compare_lines(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only diffs need it

    opcodes = SequenceMatcher(
        None, old[region.old_start : region.old_end], new[region.new_start : region.new_end], autojunk=False
    ).get_opcodes()
    return [
        Region(
            region.old_start + old_start,
            region.old_start + old_end,
            region.new_start + new_start,
            region.new_start + new_end,
        )
        for tag, old_start, old_end, new_start, new_end in opcodes
        if tag != "equal"
    ]


def _between_anchors(region: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """Return the regions between anchors. Anchors are lines that occur once on each side, in the same order. Empty if
    there are no anchors."""
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
    subregions, start, new_start = [], region.old_start, region.new_start
    anchors = _longest_increasing(pairs)
    for index, new_index in anchors:
        subregions.append(Region(start, index, new_start, new_index))
        start, new_start = index + 1, new_index + 1
    return [*subregions, Region(start, region.old_end, new_start, region.new_end)] if anchors else []


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of the pairs that increases on both sides."""
    end_values: list[int] = []
    end_indices: list[int] = []
    """For each length, the index of the last pair of an increasing sequence of that length. If there are several such
    sequences, the one whose last pair has the smallest right side is used."""
    predecessors: list[int] = []
    for index, (_, new_index) in enumerate(pairs):
        length = bisect_left(end_values, new_index)
        predecessors.append(end_indices[length - 1] if length else -1)
        end_values[length : length + 1] = [new_index]
        end_indices[length : length + 1] = [index]
    increasing, pair_index = [], end_indices[-1] if end_indices else -1
    while pair_index >= 0:
        increasing.append(pairs[pair_index])
        pair_index = predecessors[pair_index]
    return increasing[::-1]


def _merge_adjacent(regions: Sequence[Region]) -> list[Region]:

    merged: list[Region] = []
    for region in regions:
        if merged and merged[-1].old_end == region.old_start and merged[-1].new_end == region.new_start:
            region = Region(merged[-1].old_start, region.old_end, merged[-1].new_start, region.new_end)
            merged.pop()
        merged.append(region)
    return merged
