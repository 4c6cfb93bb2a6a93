r"""Locates the hunks of a patch in text and derives the changes. Pure; every line ending is `\n`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.tools.files.alignment import AlignedBlock, UnclearError, rewrite_block
from ebbtide.tools.files.corrections import Correction, corrections
from ebbtide.tools.files.edit_checks import indentation_mismatch, omission_placeholder
from ebbtide.tools.files.indentation import indent_of, indent_step
from ebbtide.tools.files.matching import (
    CLOSENESS_ORDER,
    Closeness,
    LineMatches,
    find_lines,
    find_loosely,
    line_number,
    nearest_lines,
)
from ebbtide.tools.files.patch import PatchError, PatchHunk
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.files.text_edit import EditTarget, excerpt, unread_file_text
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    first_line: int
    """Index of the hunk's first line in the text."""
    closeness: Closeness
    change: Replacement
    note: str = ""
    """What was removed from the hunk's lines to find them in the file, such as line numbers."""


def place_hunks(target: EditTarget, hunks: Sequence[PatchHunk]) -> tuple[PlacedHunk, ...]:
    """Return the hunks as changes of the text, in order. Raises `PatchError` for the first one that does not fit."""
    lines = target.text.removesuffix("\n").split("\n") if target.text else []
    found: list[PlacedHunk] = []
    used: list[range] = []
    for number, hunk in enumerate(hunks, start=1):
        placer = _HunkPlacer(target, lines, hunk, f"hunk {number} of `{target.name}`", used)
        first, closeness = placer.find()
        used.append(range(first, first + len(hunk.old)))
        found.append(PlacedHunk(first, closeness, placer.replacement_at(first), placer.note))
    found.sort(key=lambda each: (each.change.start, each.change.end))
    if any(one.change.end > other.change.start for one, other in pairwise(found)):
        raise PatchError(f"two hunks of `{target.name}` change the same lines: make them one")
    return tuple(found)


class _HunkPlacer:
    """Finds the position of one hunk."""

    def __init__(
        self, target: EditTarget, lines: list[str], hunk: PatchHunk, label: str, used_ranges: Sequence[range]
    ) -> None:
        self.target, self.lines, self.hunk, self.where, self.used = target, lines, hunk, label, used_ranges
        self.search_start = used_ranges[-1].stop if used_ranges else 0
        """End of the previous hunk, after which this one is looked for first."""
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
            raise PatchError(f"{self.where}: its lines are not in the file{self._near_miss_text(old)}")
        if self.hunk.is_at_end and starts[-1] == len(self.lines) - len(old):
            starts = starts[-1:]
        if len(starts) > 1 or self.hunk.preceding_lines:
            starts, closeness = self._below_context(starts, closeness)
        if len(starts) > 1:
            places = ", ".join(str(start + 1) for start in starts[:20])
            raise PatchError(
                f"{self.where} fits at lines {places}: add context, or `@@` with a line above the right place"
            )
        self._require_known(closeness)
        return starts[0], closeness

    def _matching_starts(self, old: Sequence[str]) -> tuple[list[int], Closeness]:
        """Find the lines after the previous hunk or, failing that, anywhere."""
        matches = find_lines(self.lines, old, self.search_start)
        starts = self._unused_starts(matches.starts)
        if not starts and self.search_start:
            matches = find_lines(self.lines, old)
            starts = self._unused_starts(matches.starts)
        return starts, matches.closeness

    def _find_corrected(self) -> tuple[list[int], Closeness]:
        """Find the hunk without artefacts that the model added, if one of the corrections gives exactly one
        position."""
        added = "\n".join(line for sign, line in self.hunk.lines if sign == "+")
        for correction in corrections("\n".join(self.hunk.old), added):
            hunk = _with_corrected_lines(self.hunk, correction)
            places = find_loosely(self.target.text, correction.old).spans if hunk is not None else ()
            starts = self._unused_starts([line_number(self.target.text, place.start) - 1 for place in places])
            if hunk is not None and len(places) == len(starts) == 1:
                self.hunk, self.note = hunk, correction.note
                return starts, find_lines(self.lines, hunk.old).closeness
        return [], "none"

    def replacement_at(self, first: int) -> Replacement:
        """Return the hunk's change at this position. Context lines keep the file's bytes. Raises `PatchError`."""
        last = first + len(self.hunk.old)
        file_lines = self.lines[first:last]
        placeholder = omission_placeholder("\n".join(self.hunk.new), self.target.text)
        if placeholder is not None:
            raise PatchError(
                f"{self.where} has {placeholder!r} for lines that it leaves out: write them out, or make two hunks"
            )
        if list(self.hunk.old) != file_lines:  # lines that match the file exactly are replaced exactly
            self._require_indentation(file_lines)
        try:
            new = rewrite_block(
                AlignedBlock(
                    self.hunk.old, file_lines, self.hunk.new, self.hunk.unchanged_lines, lambda: indent_step(self.lines)
                )
            )
        except UnclearError as error:
            excerpt_text = "" if not self.target.is_known else ":\n" + "\n".join(excerpt(file_lines))
            raise PatchError(
                f"{self.where} fits at line {first + 1} with other indentation, which does not tell how far "
                f"{str(error).strip()!r} is to be indented: write the lines as the file has them{excerpt_text}"
            ) from error
        return _line_replacement(self.target.text, self.lines, first, last, new)

    def _require_indentation(self, file_lines: Sequence[str]) -> None:
        odd = indentation_mismatch(
            "\n".join(self.hunk.old), "\n".join(self.hunk.new), self.target.text, "\n".join(file_lines)
        )
        if odd is not None:
            odd = odd.replace("`new`", self.where)
            raise PatchError(f"{odd}: indent it as the file is, with indented lines of it around")

    def _unused_starts(self, starts: Sequence[int]) -> list[int]:
        count = len(self.hunk.old)
        return [
            start
            for start in starts
            if all(start + count <= other.start or other.stop <= start for other in self.used if len(other))
        ]

    def _insertion_point(self) -> tuple[int, Closeness]:
        if not self.hunk.preceding_lines:
            return len(self.lines), "exact"
        chains = list(self._context_positions())
        if not chains:
            self._refuse_context()
        if self.hunk.is_at_end:
            return len(self.lines), "exact"
        if len(chains) > 1:
            places = ", ".join(str(start + 1) for start, _ in chains[:20])
            raise PatchError(f"{self.where}: its `@@` line is at lines {places}: add unchanged lines to the hunk")
        start, closeness = chains[0]
        self._require_known(closeness)
        return start + 1, closeness

    def _below_context(self, starts: list[int], closeness: Closeness) -> tuple[list[int], Closeness]:
        """Return the positions below the lines named after @@: inside their block if there are any, otherwise anywhere
        below."""
        if not self.hunk.preceding_lines:
            return starts, closeness
        chains = list(self._context_positions())
        if not chains:
            self._refuse_context()
        weakest = max((each for _, each in chains), key=CLOSENESS_ORDER.index)
        count = len(self.hunk.old)
        below = [at for at in starts if any(line <= at for line, _ in chains)] or [
            at for at in starts if any(at < line < at + count for line, _ in chains)
        ]  # the line may also belong to the hunk itself
        inside = [at for at in below if any(line <= at < self._end_of_block(line) for line, _ in chains)]
        found = inside or below
        if not found:
            raise PatchError(
                f"{self.where}: its lines are at line {starts[0] + 1}, above the `@@` line: leave that out"
            )
        return found, max(closeness, weakest, key=CLOSENESS_ORDER.index)

    def _context_positions(self) -> Iterator[tuple[int, Closeness]]:
        """Yield the index of each line that matches the last one named after @@. The other named lines come above it,
        each in the block of the previous one."""
        found: list[tuple[int, Closeness]] = [(-1, "exact")]
        for context in self.hunk.preceding_lines:
            matches = self._find_context_line(context)
            below = [
                start
                for start in matches.starts
                if any(line < start and (line < 0 or start < self._end_of_block(line)) for line, _ in found)
            ] or [start for start in matches.starts if any(line < start for line, _ in found)]
            found = [(start, matches.closeness) for start in below]
        yield from found

    def _find_context_line(self, context: str) -> LineMatches:
        """Find a line named after @@ by its full text, or else by its beginning."""
        matches = find_lines(self.lines, [context])
        if matches.starts:
            return matches
        starts = [at for at, line in enumerate(self.lines) if line.strip().startswith(context.strip())]
        return LineMatches(tuple(starts), "exact")

    def _end_of_block(self, line: int) -> int:
        """Return the end of the lines that are indented more deeply than this one."""
        width = len(indent_of(self.lines[line]))
        at = line + 1
        while at < len(self.lines) and (not self.lines[at].strip() or len(indent_of(self.lines[at])) > width):
            at += 1
        return at

    def _refuse_context(self) -> None:
        for context in self.hunk.preceding_lines:
            if not self._find_context_line(context).starts:
                raise PatchError(
                    f"{self.where}: the line `@@ {context}` is not in the file{self._near_miss_text([context])}"
                )
        raise PatchError(f"{self.where}: the lines after its @@ are not in this order in the file: leave some out")

    def _near_miss_text(self, lines: Sequence[str]) -> str:
        if not self.target.is_known:
            return f", {unread_file_text(self.target.name)}"
        miss = nearest_lines(self.target.text, "\n".join(lines))
        if miss is None:
            return ": read the file again"
        return f"; closest is, from line {miss.first_line}:\n" + "\n".join(excerpt(miss.lines))

    def _require_known(self, closeness: Closeness) -> None:
        if (closeness != "exact" or self.note) and not self.target.is_known:
            raise PatchError(f"{self.where} is not exactly in the file, {unread_file_text(self.target.name)}")


def _with_corrected_lines(hunk: PatchHunk, correction: Correction) -> PatchHunk | None:
    """Return the hunk with the corrected lines; None if the correction cannot be applied line by line."""
    counts = Counter(sign == "+" for sign, _ in hunk.lines)
    old, added = correction.old.split("\n"), (correction.new or "").split("\n") if counts[True] else []
    if correction.new is None or (len(old), len(added)) != (counts[False], counts[True]):
        return None
    olds, news = iter(old), iter(added)
    return replace(hunk, lines=tuple((sign, next(news if sign == "+" else olds)) for sign, _ in hunk.lines))


def _line_replacement(text: str, lines: Sequence[str], first: int, last: int, new: Sequence[str]) -> Replacement:
    start = sum(len(line) + 1 for line in lines[:first])
    new_text = "".join(line + "\n" for line in new)
    if last < len(lines) or text.endswith("\n") or not text:
        return Replacement(start, start + sum(len(line) + 1 for line in lines[first:last]), new_text)
    if first == len(lines):
        return Replacement(len(text), len(text), "\n" + new_text.removesuffix("\n"))
    return Replacement(start if new_text else max(start - 1, 0), len(text), new_text.removesuffix("\n"))
