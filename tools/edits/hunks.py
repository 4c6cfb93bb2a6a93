r"""Finds the positions of a patch's hunks in text, and derives the changes. Every line ending is `\n`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.tools.edits.alignment import AlignedBlock, AmbiguousLineError, rewrite_block
from ebbtide.tools.edits.checks import find_indentation_mismatch, find_omission_placeholder
from ebbtide.tools.edits.corrections import Correction, possible_corrections
from ebbtide.tools.edits.indentation import indent_of, indent_step
from ebbtide.tools.edits.matching import (
    CLOSENESS_ORDER,
    Closeness,
    LineMatches,
    find_lines,
    find_loosely,
    find_nearest_lines,
    line_number,
)
from ebbtide.tools.edits.patch import PatchError, PatchHunk
from ebbtide.tools.edits.text_edit import EditTarget, first_lines, listed_positions, read_first_hint
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    first_line: int
    """Index of the hunk's first line in the text."""
    closeness: Closeness
    change: Replacement
    note: str = ""
    """What was removed from the hunk's lines, such as line numbers, so that they could be found in the file."""


def place_hunks(target: EditTarget, hunks: Sequence[PatchHunk]) -> tuple[PlacedHunk, ...]:
    """Return the hunks as changes to the text, in order. Raises `PatchError` for the first one that does not fit."""
    lines = target.text.removesuffix("\n").split("\n") if target.text else []
    placed_hunks: list[PlacedHunk] = []
    used_ranges: list[range] = []
    for number, hunk in enumerate(hunks, start=1):
        placer = _HunkPlacer(target, lines, hunk, f"hunk {number} of `{target.name}`", used_ranges)
        first_line, closeness = placer.find()
        used_ranges.append(range(first_line, first_line + len(hunk.old)))
        placed_hunks.append(PlacedHunk(first_line, closeness, placer.replacement_at(first_line), placer.note))
    placed_hunks.sort(key=lambda hunk: (hunk.change.start, hunk.change.end))
    if any(previous.change.end > following.change.start for previous, following in pairwise(placed_hunks)):
        raise PatchError(f"two hunks of `{target.name}` change the same lines: make them one")
    return tuple(placed_hunks)


class _HunkPlacer:
    """Finds the position of one hunk."""

    def __init__(
        self, target: EditTarget, lines: list[str], hunk: PatchHunk, label: str, used_ranges: Sequence[range]
    ) -> None:
        self.target = target
        self.lines = lines
        self.hunk = hunk
        self.label = label
        self.used_ranges = used_ranges
        self.search_start = used_ranges[-1].stop if used_ranges else 0
        """Index of the line after the previous hunk, where the search for this hunk begins."""
        self.note = ""

    def find(self) -> tuple[int, Closeness]:
        trimmed = self.hunk.without_trailing_blanks
        if not trimmed.old:
            self.hunk = trimmed
            return self._insertion_point()
        old = self.hunk.old
        starts, closeness = self._matching_starts(old)
        if not starts and trimmed.old != old:
            self.hunk, old = trimmed, trimmed.old
            starts, closeness = self._matching_starts(old)
        if not starts:
            starts, closeness = self._find_corrected()
        if not starts:
            raise PatchError(f"{self.label}: its lines are not in the file{self._near_miss_text(old)}")
        if self.hunk.is_at_end and starts[-1] == len(self.lines) - len(old):
            starts = starts[-1:]
        if len(starts) > 1 or self.hunk.preceding_lines:
            starts, closeness = self._starts_below_context(starts, closeness)
        if len(starts) > 1:
            line_numbers = listed_positions(start + 1 for start in starts)
            raise PatchError(
                f"{self.label} fits at lines {line_numbers}: add context, or `@@` with a line above the right place"
            )
        self._require_known(closeness)
        return starts[0], closeness

    def _matching_starts(self, old: Sequence[str]) -> tuple[list[int], Closeness]:
        """Return the positions at which the lines occur after the previous hunk or, if there are none, anywhere in the
        file."""
        matches = find_lines(self.lines, old, self.search_start)
        starts = self._unused_starts(matches.starts)
        if not starts and self.search_start:
            matches = find_lines(self.lines, old)
            starts = self._unused_starts(matches.starts)
        return starts, matches.closeness

    def _find_corrected(self) -> tuple[list[int], Closeness]:
        """Find the hunk after removing artefacts that the model added. A correction must match at exactly one
        position."""
        added = "\n".join(line for prefix, line in self.hunk.lines if prefix == "+")
        for correction in possible_corrections("\n".join(self.hunk.old), added):
            hunk = _with_corrected_lines(self.hunk, correction)
            spans = find_loosely(self.target.text, correction.old).spans if hunk is not None else ()
            starts = self._unused_starts([line_number(self.target.text, span.start) - 1 for span in spans])
            if hunk is not None and len(spans) == len(starts) == 1:
                self.hunk, self.note = hunk, correction.note
                return starts, find_lines(self.lines, hunk.old).closeness
        return [], "none"

    def replacement_at(self, first: int) -> Replacement:
        """Return the change that the hunk makes at this position. Context lines keep the file's bytes. Raises
        `PatchError`."""
        last = first + len(self.hunk.old)
        file_lines = self.lines[first:last]
        placeholder = find_omission_placeholder("\n".join(self.hunk.new), self.target.text)
        if placeholder is not None:
            raise PatchError(
                f"{self.label} has {placeholder!r} for lines that it omits: write them out, or make two hunks"
            )
        if list(self.hunk.old) != file_lines:  # lines that match the file exactly are replaced exactly
            self._require_indentation(file_lines)
        try:
            new = rewrite_block(
                AlignedBlock(
                    self.hunk.old, file_lines, self.hunk.new, self.hunk.unchanged_lines, lambda: indent_step(self.lines)
                )
            )
        except AmbiguousLineError as error:
            excerpt_text = "" if not self.target.was_read else ":\n" + "\n".join(first_lines(file_lines))
            raise PatchError(
                f"{self.label} fits at line {first + 1} with other indentation, which does not tell how far "
                f"{str(error).strip()!r} should be indented: write the lines as the file has them{excerpt_text}"
            ) from error
        return _line_replacement(self.target.text, self.lines, first, last, new)

    def _require_indentation(self, file_lines: Sequence[str]) -> None:
        mismatch = find_indentation_mismatch(
            "\n".join(self.hunk.old), "\n".join(self.hunk.new), self.target.text, "\n".join(file_lines)
        )
        if mismatch is not None:
            mismatch = mismatch.replace("`new`", self.label)
            raise PatchError(f"{mismatch}: indent it as in the file, with indented lines of the file around it")

    def _unused_starts(self, starts: Sequence[int]) -> list[int]:
        line_count = len(self.hunk.old)
        return [
            start
            for start in starts
            if all(
                start + line_count <= used_range.start or used_range.stop <= start
                for used_range in self.used_ranges
                if len(used_range)
            )
        ]

    def _insertion_point(self) -> tuple[int, Closeness]:
        if not self.hunk.preceding_lines:
            return len(self.lines), "exact"
        context_lines = list(self._context_positions())
        if not context_lines:
            self._raise_context_error()
        if self.hunk.is_at_end:
            return len(self.lines), "exact"
        if len(context_lines) > 1:
            line_numbers = listed_positions(start + 1 for start, _ in context_lines)
            raise PatchError(f"{self.label}: its `@@` line is at lines {line_numbers}: add unchanged lines to the hunk")
        start, closeness = context_lines[0]
        self._require_known(closeness)
        return start + 1, closeness

    def _starts_below_context(self, starts: list[int], closeness: Closeness) -> tuple[list[int], Closeness]:
        """Return the possible positions below an `@@` line. If some of them are inside that line's block, return only
        those."""
        if not self.hunk.preceding_lines:
            return starts, closeness
        context_lines = list(self._context_positions())
        if not context_lines:
            self._raise_context_error()
        loosest = max((line_closeness for _, line_closeness in context_lines), key=CLOSENESS_ORDER.index)
        line_count = len(self.hunk.old)
        below = [start for start in starts if any(line <= start for line, _ in context_lines)] or [
            start for start in starts if any(start < line < start + line_count for line, _ in context_lines)
        ]  # the line may also belong to the hunk itself
        inside_block = [
            start for start in below if any(line <= start < self._end_of_block(line) for line, _ in context_lines)
        ]
        matching_starts = inside_block or below
        if not matching_starts:
            raise PatchError(
                f"{self.label}: its lines are at line {starts[0] + 1}, above the `@@` line: omit that line"
            )
        return matching_starts, max(closeness, loosest, key=CLOSENESS_ORDER.index)

    def _context_positions(self) -> Iterator[tuple[int, Closeness]]:
        """Yield the index of each line that matches the hunk's last `@@` line. The other `@@` lines must match above
        it, each inside the block of the one before."""
        positions: list[tuple[int, Closeness]] = [(-1, "exact")]
        for context in self.hunk.preceding_lines:
            matches = self._find_context_line(context)
            below = [
                start
                for start in matches.starts
                if any(line < start and (line < 0 or start < self._end_of_block(line)) for line, _ in positions)
            ] or [start for start in matches.starts if any(line < start for line, _ in positions)]
            positions = [(start, matches.closeness) for start in below]
        yield from positions

    def _find_context_line(self, context: str) -> LineMatches:
        """Find the line that an `@@` line quotes, by its full text or else by its beginning."""
        matches = find_lines(self.lines, [context])
        if matches.starts:
            return matches
        starts = [index for index, line in enumerate(self.lines) if line.strip().startswith(context.strip())]
        return LineMatches(tuple(starts), "exact")

    def _end_of_block(self, line: int) -> int:
        """Return the index after the more deeply indented lines that follow a line."""
        width = len(indent_of(self.lines[line]))
        index = line + 1
        while index < len(self.lines) and (not self.lines[index].strip() or len(indent_of(self.lines[index])) > width):
            index += 1
        return index

    def _raise_context_error(self) -> None:
        for context in self.hunk.preceding_lines:
            if not self._find_context_line(context).starts:
                raise PatchError(
                    f"{self.label}: the line `@@ {context}` is not in the file{self._near_miss_text([context])}"
                )
        raise PatchError(f"{self.label}: the lines after its @@ are not in this order in the file: omit some of them")

    def _near_miss_text(self, lines: Sequence[str]) -> str:
        if not self.target.was_read:
            return f", {read_first_hint(self.target.name)}"
        miss = find_nearest_lines(self.target.text, "\n".join(lines))
        if miss is None:
            return ": read the file again"
        return f"; closest is, from line {miss.first_line}:\n" + "\n".join(first_lines(miss.lines))

    def _require_known(self, closeness: Closeness) -> None:
        if (closeness != "exact" or self.note) and not self.target.was_read:
            raise PatchError(f"{self.label} is not exactly in the file, {read_first_hint(self.target.name)}")


def _with_corrected_lines(hunk: PatchHunk, correction: Correction) -> PatchHunk | None:
    """Replace the hunk's lines with the corrected ones. None if the correction cannot be applied line by line."""
    counts_by_is_added = Counter(prefix == "+" for prefix, _ in hunk.lines)
    old, added = correction.old.split("\n"), (correction.new or "").split("\n") if counts_by_is_added[True] else []
    if correction.new is None or (len(old), len(added)) != (counts_by_is_added[False], counts_by_is_added[True]):
        return None
    old_lines, added_lines = iter(old), iter(added)
    return replace(
        hunk, lines=tuple((prefix, next(added_lines if prefix == "+" else old_lines)) for prefix, _ in hunk.lines)
    )


def _line_replacement(text: str, lines: Sequence[str], first: int, last: int, new: Sequence[str]) -> Replacement:
    start = sum(len(line) + 1 for line in lines[:first])
    new_text = "".join(line + "\n" for line in new)
    if last < len(lines) or text.endswith("\n") or not text:
        return Replacement(start, start + sum(len(line) + 1 for line in lines[first:last]), new_text)
    if first == len(lines):
        return Replacement(len(text), len(text), "\n" + new_text.removesuffix("\n"))
    return Replacement(start if new_text else max(start - 1, 0), len(text), new_text.removesuffix("\n"))
