"""Aligns three versions of the same lines: as the model quoted them, as it wants them, and as they are in the file.
Pure.

Lines that occur both in the old and in the new text keep the file's bytes. Other lines get the file's indentation and
punctuation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.files.indentation import IndentMap, indent_of, indent_plausibility, opens_block, second_line_indent
from ebbtide.tools.files.line_diff import differing_regions
from ebbtide.tools.files.punctuation import FilePunctuation
from ebbtide.tools.lazy import dataclass

MAX_EXACT_PAIRS = 160_000
"""Maximum number of pairs of lines for which all best alignments are compared instead of just one."""
MIN_SIMILARITY = 0.5
"""Minimum similarity, from 0 to 1, of two lines for one to count as a changed version of the other."""
MAX_COMPARED_PAIRS = 400
"""Maximum number of pairs of changed lines whose similarity is computed."""


class UnclearError(Exception):
    """Raised if it is ambiguous what a line of the new text should look like in the file."""


@dataclass(frozen=True, slots=True)
class AlignedBlock:
    """Lines as the model quoted them, with the lines of the file that they correspond to."""

    old: Sequence[str]
    file_lines: Sequence[str]
    new: Sequence[str]
    unchanged: Sequence[tuple[int, int]] = ()
    """Pairs of indices in `old` and `new` of the lines that the model marked as unchanged, ascending."""
    indent_step: Callable[[], str] = field(default=str)
    """Returns one level of the file's indentation."""


def rewrite_block(block: AlignedBlock) -> list[str]:
    """Return the new lines in the file's style. Raises `UnclearError` if that is ambiguous."""
    if list(block.old) == list(block.file_lines):
        return list(block.new)
    if block.old and block.new and has_lost_indent(block.old, block.new):
        raise UnclearError(block.new[0])
    rewriting = _BlockRewriter(block)
    if block.unchanged:
        rewriting.require_unchanged()
    return rewriting.lines()


class _BlockRewriter:
    def __init__(self, block: AlignedBlock) -> None:
        self.old, self.file_lines, self.new, self.unchanged, self.indent_step = (
            block.old,
            block.file_lines,
            block.new,
            block.unchanged,
            block.indent_step,
        )
        if self.new and _begins_with_moved_line(self.old, self.new):
            raise UnclearError(self.new[0])
        lost = _lost_indent(self.old, self.file_lines)
        if lost is not None:
            self.old, self.new = _restore_indent(self.old, self.new, lost)
        else:
            is_bare = bool(self.old[0].strip()) and not indent_of(self.old[0]) and bool(indent_of(self.file_lines[0]))
            if is_bare and _have_same_stripped_lines(self.old, self.new):
                raise UnclearError(self.old[0])
            self._require_clear_levels([i for i, line in enumerate(self.old) if line.strip()])
        self._require_uniform_steps()
        self.model_indents = frozenset(indent_of(line) for line in (*self.old, *self.new) if line.strip())
        self.levels = self._indents_in(range(len(self.old)))
        self.punctuation = FilePunctuation.from_texts("\n".join(self.old), "\n".join(self.file_lines))
        both = list(zip(self.old, self.file_lines, strict=True))
        self.has_extra_trailing_blanks = any(old != old.rstrip() and here == here.rstrip() for old, here in both)
        self.empty_line_pairs = _empty_line_pairs(self.old, self.new)
        self.bodies: dict[str, set[str]] = {}
        for old, here in both:
            self.bodies.setdefault(_stripped(old), set()).add(_stripped(here))

    def lines(self) -> list[str]:
        return list(self._lines(self.unchanged, len(self.old), len(self.new)))

    def require_unchanged(self) -> None:
        """Check that the lines marked as unchanged can be matched in only one way, or that the choice makes no
        difference. If the model quoted lines without indentation, different lines may look alike. Raises
        `UnclearError`."""
        self._unchanged_pairs(range(len(self.old)), range(len(self.new)))

    def _require_clear_levels(self, rows: Sequence[int]) -> None:
        """If only one old line has text, check that the new lines are clearly indented relative to it. `rows`: indices
        of the old lines that have text. Raises `UnclearError`."""
        new = [line for line in self.new if line.strip()]
        deeper = second_line_indent(new)
        if len(rows) != 1 or deeper is None:
            return
        file_indent, opens = indent_of(self.file_lines[rows[0]]), opens_block(new[0])
        if indent_of(self.old[rows[0]]):
            if self.old[rows[0]] != self.file_lines[rows[0]] and deeper > len(indent_of(new[0])) and not opens:
                raise UnclearError(new[1])
        elif file_indent:
            unit = len(self.indent_step()) or 4
            fit, depths = indent_plausibility(deeper, unit, opens=opens), [len(indent_of(line)) for line in new]
            if fit < 2 or fit <= indent_plausibility(deeper - len(file_indent), unit, opens=opens):
                raise UnclearError(new[1])
            if any((depth - depths[0]) % unit for depth in depths):
                raise UnclearError(next(line for line in new if (len(indent_of(line)) - depths[0]) % unit))

    def _require_uniform_steps(self) -> None:
        """Check that a line after one that opens a block is either not deeper or deeper by one step of the text. Pairs
        of lines that are also in the old text are not checked. Raises `UnclearError`."""
        old, new = ([line for line in lines if line.strip()] for lines in (self.old, self.new))
        depths = sorted({len(indent_of(line)) for line in (*old, *new)})
        step = min((after - before for before, after in pairwise(depths)), default=0)
        known = set(pairwise(old))
        for above, below in pairwise(new):
            deeper = len(indent_of(below)) - len(indent_of(above))
            if opens_block(above) and deeper > 0 and deeper != step and (above, below) not in known:
                raise UnclearError(below)

    def _indents_in(self, rows: range) -> IndentMap:
        pairs = ((indent_of(self.old[i]), indent_of(self.file_lines[i])) for i in rows if self.old[i].strip())
        return IndentMap(frozenset(pairs), self.model_indents, self.indent_step)

    def _lines(self, common: Sequence[tuple[int, int]], old_end: int, new_end: int) -> Iterator[str]:
        at = new_at = 0
        for old, new in [*common, (old_end, new_end)]:
            same = self._unchanged_pairs(range(at, old), range(new_at, new))
            for i, j in same:
                yield from self._changed_lines(range(at, i), range(new_at, j))
                yield self._unchanged_line(i, j)
                at, new_at = i + 1, j + 1
            yield from self._changed_lines(range(at, old), range(new_at, new))
            if new < new_end:
                yield self.file_lines[old]
            at, new_at = old + 1, new + 1

    def _unchanged_pairs(self, old: range, new: range) -> list[tuple[int, int]]:
        """Return the pairs of lines that are in both texts. Raises `UnclearError` if another pairing would give a
        different result."""
        old_texts, new_texts = [_stripped(self.old[i]) for i in old], [_stripped(self.new[j]) for j in new]
        if len(old) * len(new) > MAX_EXACT_PAIRS:
            if len(self.levels.pairs) > len({one for one, _ in self.levels.pairs}):
                raise UnclearError(self.new[new.start])
            return [(i + old.start, j + new.start) for i, j in _equal_pairs(old_texts, new_texts)]
        weights = [
            [self._pair_weight(i, j) if _stripped(self.new[j]) == one else 0 for j in new]
            for i, one in zip(old, old_texts, strict=True)
        ]
        pairs = []
        for i, j, rows, may_be_new in _best_pairs(weights, len(old), len(new)):
            self._require_one_result([row + old.start for row in rows], may_be_new, j + new.start)
            pairs.append((i + old.start, j + new.start))
        return pairs

    def _pair_weight(self, old: int, new: int) -> int:
        old_line, new_line = self.old[old], self.new[new]
        return 4 if old_line == new_line else 3 if old_line.rstrip() == new_line.rstrip() else 2

    def _require_one_result(self, rows: Sequence[int], may_be_new: bool, new: int) -> None:
        """Check that the result for a new line is the same for each old line that it may correspond to, and in case it
        may be new. Raises `UnclearError`."""
        if len(rows) + may_be_new < 2:
            return
        outcomes = {self._unchanged_line(row, new) for row in rows}
        if may_be_new and self.new[new].strip():
            outcomes = {outcome.rstrip() for outcome in outcomes}
            level = self.levels.translate(indent_of(self.new[new]))
            outcomes.add("" if level is None else level + self._text_with_file_style(new).rstrip())
        if len(outcomes) > 1:
            raise UnclearError(self.new[new])

    def _unchanged_line(self, old: int, new: int) -> str:
        """Return a line that is in both texts: the file's bytes, re-indented if the model moved the line."""
        old_line, new_line, file_line = self.old[old], self.new[new], self.file_lines[old]
        if not file_line.strip() and new in self.empty_line_pairs:
            return file_line
        if old_line.rstrip() != old_line and new_line.rstrip() == new_line and file_line.rstrip() != file_line:
            file_line = file_line.rstrip()
        if indent_of(old_line) == indent_of(new_line) or not file_line.strip():
            return file_line
        level = self.levels.translate(indent_of(new_line))
        if level is None:
            raise UnclearError(new_line)
        return level + file_line.lstrip(" \t")

    def _changed_lines(self, old: range, new: range) -> Iterator[str]:
        """Yield the lines that replace old lines or are inserted between unchanged ones."""
        partners = self._partners(old, new)
        for j in new:
            line = self.new[j]
            if not line.strip():
                known = self.empty_line_pairs.get(j)
                yield self.file_lines[known] if known is not None else "" if self.has_extra_trailing_blanks else line
                continue
            level = self._file_indent(j, old, new, partners)
            if level is None:
                raise UnclearError(line)
            yield level + self._text_with_file_style(j, partners.get(j))

    def _file_indent(self, new: int, old: range, among: range, partners: dict[int, int]) -> str | None:
        indent = indent_of(self.new[new])
        level = self.levels.translate(indent)
        if level is not None:
            return level
        if len(self.levels.file_indents(indent)) < 2:
            return self._indents_in(old).translate(indent) if old and not self.levels.merges_levels else None
        partner = partners.get(new)
        if partner is not None and len(old) == len(among) == len(partners) and indent == indent_of(self.old[partner]):
            return indent_of(self.file_lines[partner])
        if len(among) > 1:
            return None
        if old:
            return self._indents_in(old).translate(indent) if self._indents_in(old).file_indents(indent) else None
        return self._level_between(indent, old.start)

    def _level_between(self, indent: str, below: int) -> str | None:
        """Return the file's indentation for a line between two lines of the same level, or None."""
        neighbours = [i for i in (below - 1, below) if 0 <= i < len(self.old) and indent_of(self.old[i]) == indent]
        around = {indent_of(self.file_lines[i]) for i in neighbours if self.old[i].strip()}
        return around.pop() if len(neighbours) == 2 and len(around) == 1 else None

    def _partners(self, old: range, new: range) -> dict[int, int]:
        """Map each changed line to the old line that it corresponds to, if that is clear."""
        if len(old) == len(new) == 1:
            return {new.start: old.start}
        if not old or len(old) * len(new) > MAX_COMPARED_PAIRS:
            return {}
        if len(old) == len(new):
            return {j: i for i, j in zip(old, new, strict=True) if self._similarity(i, j) >= MIN_SIMILARITY}
        found, at = dict[int, int](), old.start
        for j in new:
            most_similar = max(range(at, old.stop), key=lambda i: self._similarity(i, j), default=None)
            if most_similar is not None and self._similarity(most_similar, j) >= MIN_SIMILARITY:
                found[j], at = most_similar, most_similar + 1
        return found

    def _similarity(self, old: int, new: int) -> float:
        from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only changed lines of a loose match need it

        return SequenceMatcher(None, _stripped(self.old[old]), _stripped(self.new[new]), autojunk=False).ratio()

    def _text_with_file_style(self, new: int, partner: int | None = None) -> str:
        """Return a new line without indentation, but with the file's punctuation and the trailing blanks of its
        partner."""
        line = self.new[new].lstrip(" \t")
        known = self.bodies.get(_stripped(line), set())
        line = line.rstrip() if self.has_extra_trailing_blanks else line
        if len(known) == 1:
            return next(iter(known)) + line[len(line.rstrip(" \t")) :]
        if partner is None:
            return self.punctuation.apply_to(line)
        old, here = self.old[partner].lstrip(" \t"), self.file_lines[partner].lstrip(" \t")
        line = self.punctuation.carry_over(old.rstrip(), line, here.rstrip())
        is_bare = line == line.rstrip() and (old == old.rstrip() or self.has_extra_trailing_blanks)
        return line + here[len(here.rstrip()) :] if is_bare else line


def _lost_indent(old: Sequence[str], file_lines: Sequence[str]) -> str | None:
    """Return the indentation that the first line lost while the other lines kept theirs; None if it lost none. Raises
    `UnclearError` if the other lines do not determine it."""
    first, quoted_indent = indent_of(file_lines[0]), indent_of(old[0])
    other_indents = {
        (indent_of(other), indent_of(one)) for one, other in zip(old[1:], file_lines[1:], strict=True) if one.strip()
    }
    is_bare = not quoted_indent or all(one == quoted_indent + other for other, one in other_indents)
    if not old[0].strip() or not first or not other_indents or not is_bare:
        return None
    expected = quoted_indent + first if quoted_indent else IndentMap(frozenset(other_indents)).translate(first)
    if expected is not None:
        return expected if len(expected) > len(quoted_indent) else None
    if not quoted_indent and any(one and len(other) <= len(first) for other, one in other_indents):
        raise UnclearError(old[0])
    return None


def _restore_indent(old: Sequence[str], new: Sequence[str], indent: str) -> tuple[list[str], list[str]]:
    """Restore the indentation of the first line of both texts. Raises `UnclearError`."""
    if not new or not new[0].strip() or indent_of(new[0]) != indent_of(old[0]):
        raise UnclearError(new[0] if new else "")
    require_same_first_indent(old, new, indent)
    return [indent + old[0].lstrip(" \t"), *old[1:]], [indent + new[0].lstrip(" \t"), *new[1:]]


def require_same_first_indent(old: Sequence[str], new: Sequence[str], indent: str) -> None:
    """Check that the first line of the new text, which lacks its indentation like the first line of the old text, is
    meant to have the same indentation. Raises `UnclearError`."""
    if _have_same_lines(old, new):
        raise UnclearError(new[0])  # the purpose of the change may be this indentation
    first, bodies = _stripped(new[0]), [_stripped(line) for line in old]
    levels: set[str] = {indent}
    if first != bodies[0] or [_stripped(line) for line in new].count(first) != bodies.count(first):
        levels |= {indent_of(line) for line, body in zip(old[1:], bodies[1:], strict=True) if body == first}
        levels |= {indent_of(line) for line in new[1:] if _stripped(line) == bodies[0]}
    if len(levels) > 1 or _has_reindented_line(old[1:], new[1:]):
        raise UnclearError(new[0])


def _have_same_lines(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same lines, apart from empty lines and trailing blanks."""
    return [line.rstrip() for line in old if line.strip()] == [line.rstrip() for line in new if line.strip()]


def _have_same_stripped_lines(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same lines, apart from empty lines and indentation."""
    return [_stripped(line) for line in old if line.strip()] == [_stripped(line) for line in new if line.strip()]


def _empty_line_pairs(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Map the empty lines of the new text to those of the old text, if the new text differs only by omitted lines."""
    old_texts, new_texts = [_stripped(line) for line in old], [_stripped(line) for line in new]
    if len(new) >= len(old) or any(
        region.new_end > region.new_start for region in differing_regions(old_texts, new_texts)
    ):
        return {}
    return {j: i for i, j in _equal_pairs(old_texts, new_texts) if not new_texts[j]}


def _has_reindented_line(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether a line has a different indentation in the new text."""
    old_indents, new_indents = (
        {_stripped(line): list[str]() for line in lines if line.strip()} for lines in (old, new)
    )
    for line, of in [*((line, old_indents) for line in old), *((line, new_indents) for line in new)]:
        if line.strip():
            of[_stripped(line)].append(indent_of(line))
    return any(
        found != old_indents[body] if len(found) == len(old_indents[body]) else not set(found) <= set(old_indents[body])
        for body, found in new_indents.items()
        if body in old_indents
    )


def _begins_with_moved_line(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text begins with a line that comes later in the old text, but without its indentation. Like the
    first line of an old text that is not literally in the file, it may have lost its indentation."""
    first, levels = _stripped(new[0]), {indent_of(line) for line in old[1:] if _stripped(line) == _stripped(new[0])}
    return bool(first) and not indent_of(new[0]) and _stripped(old[0]) != first and bool(levels) and "" not in levels


def has_lost_indent(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the new text begins with a line that comes later in the old text, without its indentation, while the line
    after it kept its own. If the first line was meant to leave its block, no deeper line would follow it."""
    next_line = next((line for line in new[1:] if line.strip()), "")
    return _begins_with_moved_line(old, new) and bool(indent_of(next_line)) and next_line in old[1:]


def _stripped(line: str) -> str:
    return line.strip(" \t")


def _equal_pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    i = j = 0
    for region in differing_regions(old, new):
        yield from zip(range(i, region.old_start), range(j, region.new_start), strict=True)
        i, j = region.old_end, region.new_end
    yield from zip(range(i, len(old)), range(j, len(new)), strict=True)


def _best_pairs(weights: list[list[int]], rows: int, columns: int) -> Iterator[tuple[int, int, list[int], bool]]:
    """Yield the pairs of ascending rows and columns with the greatest total weight. Each pair comes with all rows that
    its column can have in a pairing of that weight, and with whether the column is unpaired in some such pairing."""
    weights_after = _best_weights_from(weights, rows, columns)
    reversed_weights = _best_weights_from([row[::-1] for row in weights[::-1]], rows, columns)
    weights_before = [row[::-1] for row in reversed_weights[::-1]]
    best_total = weights_after[0][0]
    i = j = 0
    while i < rows and j < columns:
        weight = weights[i][j]
        if weight and weight + weights_after[i + 1][j + 1] == weights_after[i][j]:
            candidates = [row for row in range(rows) if weights[row][j]]
            possible = [
                row
                for row in candidates
                if weights_before[row][j] + weights[row][j] + weights_after[row + 1][j + 1] == best_total
            ]
            yield (
                i,
                j,
                possible,
                any(weights_before[row][j] + weights_after[row][j + 1] == best_total for row in range(rows + 1)),
            )
            i, j = i + 1, j + 1
        elif weights_after[i + 1][j] == weights_after[i][j]:
            i += 1
        else:
            j += 1


def _best_weights_from(weights: list[list[int]], rows: int, columns: int) -> list[list[int]]:
    """Return, for each position, the greatest total weight of the pairs from that row and column on."""
    sums = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        row, below, here = weights[i], sums[i + 1], sums[i]
        for j in range(columns - 1, -1, -1):
            best = max(below[j], here[j + 1])
            here[j] = max(best, row[j] + below[j + 1]) if row[j] else best
    return sums
