"""Where two lists of lines differ. Lines that stand once in both hold the rest in place; what little lies between them
is compared closely, and what is large and has no such line counts as replaced: no input takes long."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

from ebbtide.tools.lazy import dataclass

MAX_CLOSE_PAIRS = 10_000
"""Pairs of lines up to which a stretch is compared line by line."""
MAX_STEPS = 10_000_000
"""Steps that comparing closely may take altogether; what is left then counts as replaced."""
MAX_DEPTH = 12
"""How often a stretch is divided at most."""


@dataclass(frozen=True, slots=True)
class Region:
    """What stands on one side in place of what stands on the other; one of the two may be empty."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def differing(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Region]:
    """The differences, in order; between them both are the same."""
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
    """The stretch without what is the same at its ends."""
    start, new_start, end, new_end = at.old_start, at.new_start, at.old_end, at.new_end
    while start < end and new_start < new_end and old[start] == new[new_start]:
        start, new_start = start + 1, new_start + 1
    while end > start and new_end > new_start and old[end - 1] == new[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Region(start, end, new_start, new_end)


def _steps(at: Region, old: Sequence[Hashable], new: Sequence[Hashable]) -> int:
    """How many steps it takes at most to compare a stretch."""
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
    """What lies between the lines that stand once on each side, in the same order; empty when there is no such line."""
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
    """The most of the pairs, which rise on the left, that rise on the right as well."""
    ends: list[int] = []
    last: list[int] = []
    """Of each length, the pair with the lowest right side that a row of that length ends with."""
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
    """The regions, those that touch each other as one."""
    found: list[Region] = []
    for region in regions:
        if found and found[-1].old_end == region.old_start and found[-1].new_end == region.new_start:
            region = Region(found[-1].old_start, region.old_end, found[-1].new_start, region.new_end)
            found.pop()
        found.append(region)
    return found
