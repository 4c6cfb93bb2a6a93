r"""Locates the hunks of a patch in a text, and derives the changes. Pure; every line ending is `\n`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.tools.files.alignment import AlignedBlock, UnclearError, rewrite_block
from ebbtide.tools.files.corrections import Correction, corrections
from ebbtide.tools.files.edit_checks import left_out, odd_indentation
from ebbtide.tools.files.indentation import indent_of, step_of
from ebbtide.tools.files.matching import Closeness, LineMatches, alike, find_lines, line_number, nearest
from ebbtide.tools.files.patch import PatchError, PatchHunk
from ebbtide.tools.files.paths import read_call
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import cut_line

MAX_SHOWN_LINES = 40
MAX_SHOWN_CHARS = 2000
"""Maximum number of characters per line."""


@dataclass(frozen=True, slots=True)
class PlacedHunk:
    first: int
    """Index of its first line."""
    closeness: Closeness
    change: Replacement
    note: str = ""
    """What its lines have in addition to the file, such as line numbers."""


@dataclass(frozen=True, slots=True)
class HunkTarget:
    name: str
    text: str
    is_known: bool = True
    """Whether the model has seen the file's content. Otherwise errors show no lines of it."""

    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.text else []


def place_hunks(target: HunkTarget, hunks: Sequence[PatchHunk]) -> tuple[PlacedHunk, ...]:
    """Return the hunks as changes of the text, in order. Raises `PatchError` for the first one that does not fit."""
    lines = target.lines()
    found: list[PlacedHunk] = []
    taken: list[range] = []
    for number, hunk in enumerate(hunks, start=1):
        place = _HunkPlacer(target, lines, hunk, f"hunk {number} of `{target.name}`", taken)
        first, closeness = place.find()
        taken.append(range(first, first + len(hunk.old)))
        found.append(PlacedHunk(first, closeness, place.change(first), place.said))
    found.sort(key=lambda each: (each.change.start, each.change.end))
    if any(one.change.end > other.change.start for one, other in pairwise(found)):
        raise PatchError(f"two hunks of `{target.name}` change the same lines: make them one")
    return tuple(found)


class _HunkPlacer:
    """Finds the position of one hunk."""

    def __init__(
        self, target: HunkTarget, lines: list[str], hunk: PatchHunk, where: str, taken: Sequence[range]
    ) -> None:
        self.target, self.lines, self.hunk, self.where, self.taken = target, lines, hunk, where, taken
        self.at = taken[-1].stop if taken else 0
        """End of the previous hunk. The next one is first looked for after it."""
        self.said = ""

    def find(self) -> tuple[int, Closeness]:
        trimmed = self.hunk.without_trailing_blanks
        if not trimmed.old:
            self.hunk = trimmed
            return self._insertion()
        old = self.hunk.old
        starts, closeness = self._fitting(old)
        if not starts and trimmed.old != old:
            self.hunk, old = trimmed, trimmed.old
            starts, closeness = self._fitting(old)
        if not starts:
            starts, closeness = self._find_corrected()
        if not starts:
            raise PatchError(f"{self.where}: its lines are not in the file{self._closest(old)}")
        if self.hunk.at_end and starts[-1] == len(self.lines) - len(old):
            starts = starts[-1:]
        if len(starts) > 1 or self.hunk.above:
            starts, closeness = self._below_context(starts, closeness)
        if len(starts) > 1:
            places = ", ".join(str(start + 1) for start in starts[:20])
            raise PatchError(
                f"{self.where} fits at lines {places}: add context, or `@@` with a line above the right place"
            )
        self._require_known(closeness)
        return starts[0], closeness

    def _fitting(self, old: Sequence[str]) -> tuple[list[int], Closeness]:
        """Find the lines after the previous hunk, or else anywhere."""
        matches = find_lines(self.lines, old, self.at)
        starts = self._free(matches.starts)
        if not starts and self.at:
            matches = find_lines(self.lines, old)
            starts = self._free(matches.starts)
        return starts, matches.closeness

    def _find_corrected(self) -> tuple[list[int], Closeness]:
        """Find the hunk without artefacts that the model added, if that gives a single position in some reading."""
        added = "\n".join(line for sign, line in self.hunk.lines if sign == "+")
        for correction in corrections("\n".join(self.hunk.old), added):
            hunk = _with_texts(self.hunk, correction)
            places = alike(self.target.text, correction.old).places if hunk is not None else ()
            starts = self._free([line_number(self.target.text, place.start) - 1 for place in places])
            if hunk is not None and len(places) == len(starts) == 1:
                self.hunk, self.said = hunk, correction.note
                return starts, find_lines(self.lines, hunk.old).closeness
        return [], "none"

    def change(self, first: int) -> Replacement:
        """Return the hunk's change at this position. Context lines keep the file's bytes. Raises `PatchError`."""
        last = first + len(self.hunk.old)
        here = self.lines[first:last]
        missing = left_out("\n".join(self.hunk.new), self.target.text)
        if missing is not None:
            raise PatchError(
                f"{self.where} has {missing!r} for lines that it leaves out: write them out, or make two hunks"
            )
        if list(self.hunk.old) != here:  # lines that match the file exactly are replaced exactly
            self._require_indentation(here)
        try:
            new = rewrite_block(
                AlignedBlock(self.hunk.old, here, self.hunk.new, self.hunk.unchanged_lines, lambda: step_of(self.lines))
            )
        except UnclearError as error:
            shown = "" if not self.target.is_known else ":\n" + "\n".join(here[:MAX_SHOWN_LINES])
            raise PatchError(
                f"{self.where} fits at line {first + 1} with other indentation, which does not tell how far "
                f"{str(error).strip()!r} is to be indented: write the lines as the file has them{shown}"
            ) from error
        return _line_replacement(self.target.text, self.lines, first, last, new)

    def _require_indentation(self, here: Sequence[str]) -> None:
        odd = odd_indentation("\n".join(self.hunk.old), "\n".join(self.hunk.new), self.target.text, "\n".join(here))
        if odd is not None:
            odd = odd.replace("`new`", self.where)
            raise PatchError(f"{odd}: indent it as the file is, with indented lines of it around")

    def _free(self, starts: Sequence[int]) -> list[int]:
        count = len(self.hunk.old)
        return [
            start
            for start in starts
            if all(start + count <= other.start or other.stop <= start for other in self.taken if len(other))
        ]

    def _insertion(self) -> tuple[int, Closeness]:
        if not self.hunk.above:
            return len(self.lines), "exact"
        chains = list(self._contexts())
        if not chains:
            self._refuse_context()
        if self.hunk.at_end:
            return len(self.lines), "exact"
        if len(chains) > 1:
            places = ", ".join(str(start + 1) for start, _ in chains[:20])
            raise PatchError(f"{self.where}: its `@@` line is at lines {places}: add unchanged lines to the hunk")
        start, closeness = chains[0]
        self._require_known(closeness)
        return start + 1, closeness

    def _below_context(self, starts: list[int], closeness: Closeness) -> tuple[list[int], Closeness]:
        """Return the positions below the lines named after @@: within their block if there are any, otherwise
        anywhere."""
        if not self.hunk.above:
            return starts, closeness
        chains = list(self._contexts())
        if not chains:
            self._refuse_context()
        weakest = max((each for _, each in chains), key=_RANKS.index)
        count = len(self.hunk.old)
        behind = [at for at in starts if any(line <= at for line, _ in chains)] or [
            at for at in starts if any(at < line < at + count for line, _ in chains)
        ]  # the line may also belong to the hunk itself
        inside = [at for at in behind if any(line <= at < self._end_of_block(line) for line, _ in chains)]
        found = inside or behind
        if not found:
            raise PatchError(
                f"{self.where}: its lines are at line {starts[0] + 1}, above the `@@` line: leave that out"
            )
        return found, max(closeness, weakest, key=_RANKS.index)

    def _contexts(self) -> Iterator[tuple[int, Closeness]]:
        """Yield the indices of the last line named after @@, with the others above it, each in the block of the
        previous one."""
        found: list[tuple[int, Closeness]] = [(-1, "exact")]
        for context in self.hunk.above:
            matches = self._lines_of(context)
            below = [
                start
                for start in matches.starts
                if any(line < start and (line < 0 or start < self._end_of_block(line)) for line, _ in found)
            ] or [start for start in matches.starts if any(line < start for line, _ in found)]
            found = [(start, matches.closeness) for start in below]
        yield from found

    def _lines_of(self, context: str) -> LineMatches:
        """Find a line named after @@, by its whole text or by its beginning."""
        matches = find_lines(self.lines, [context])
        if matches.starts:
            return matches
        starts = [at for at, line in enumerate(self.lines) if line.strip().startswith(context.strip())]
        return LineMatches(tuple(starts), "exact")

    def _end_of_block(self, line: int) -> int:
        """Return the end of the lines that are indented more than this one."""
        width = len(indent_of(self.lines[line]))
        at = line + 1
        while at < len(self.lines) and (not self.lines[at].strip() or len(indent_of(self.lines[at])) > width):
            at += 1
        return at

    def _refuse_context(self) -> None:
        for context in self.hunk.above:
            if not self._lines_of(context).starts:
                raise PatchError(f"{self.where}: the line `@@ {context}` is not in the file{self._closest([context])}")
        raise PatchError(f"{self.where}: the lines after its @@ are not in this order in the file: leave some out")

    def _closest(self, wanted: Sequence[str]) -> str:
        if not self.target.is_known:
            return f", which was not read in this session: first {read_call(self.target.name)}"
        miss = nearest(self.target.text, "\n".join(wanted))
        if miss is None:
            return ": read the file again"
        shown = "\n".join(cut_line(line, MAX_SHOWN_CHARS) for line in miss.lines[:MAX_SHOWN_LINES])
        return f"; closest is, from line {miss.first_line}:\n{shown}"

    def _require_known(self, closeness: Closeness) -> None:
        if (closeness != "exact" or self.said) and not self.target.is_known:
            raise PatchError(
                f"{self.where} is not exactly in the file, which was not read in this session: "
                f"first {read_call(self.target.name)}"
            )


_RANKS: tuple[Closeness, ...] = ("exact", "signs", "blanks", "none")


def _with_texts(hunk: PatchHunk, correction: Correction) -> PatchHunk | None:
    """Return the hunk with the corrected lines, or None if the correction does not give them line by line."""
    counts = Counter(sign == "+" for sign, _ in hunk.lines)
    old, added = correction.old.split("\n"), (correction.new or "").split("\n") if counts[True] else []
    if correction.new is None or (len(old), len(added)) != (counts[False], counts[True]):
        return None
    olds, news = iter(old), iter(added)
    return replace(hunk, lines=tuple((sign, next(news if sign == "+" else olds)) for sign, _ in hunk.lines))


def _line_replacement(text: str, lines: Sequence[str], first: int, last: int, new: Sequence[str]) -> Replacement:
    start = sum(len(line) + 1 for line in lines[:first])
    put = "".join(line + "\n" for line in new)
    if last < len(lines) or text.endswith("\n") or not text:
        return Replacement(start, start + sum(len(line) + 1 for line in lines[first:last]), put)
    if first == len(lines):
        return Replacement(len(text), len(text), "\n" + put.removesuffix("\n"))
    return Replacement(start if put else max(start - 1, 0), len(text), put.removesuffix("\n"))
