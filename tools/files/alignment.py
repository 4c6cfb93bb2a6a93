"""Aligns lines as the model wrote them, their replacement, and the same lines in the file. Pure.

Lines in both the old and the new text keep the file's bytes. Other lines get the file's indentation and punctuation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.files.indentation import Levels, first_step, indent_of, level_fit, opens_block
from ebbtide.tools.files.line_diff import differing
from ebbtide.tools.files.punctuation import FilePunctuation
from ebbtide.tools.lazy import dataclass

MAX_EXACT_PAIRS = 160_000
"""Maximum number of line pairs for which all best alignments are compared, and not just one."""
MIN_LIKENESS = 0.5
"""Minimum similarity, up to 1, of two lines for one to count as a changed version of the other."""
MAX_COMPARED_PAIRS = 400
"""Maximum number of pairs of changed lines whose similarity is computed."""


class UnclearError(Exception):
    """A line of the new text whose form in the file is ambiguous."""


@dataclass(frozen=True, slots=True)
class AlignedBlock:
    """Some lines as the model wrote them, with the same lines of the file."""

    old: Sequence[str]
    here: Sequence[str]
    new: Sequence[str]
    unchanged: Sequence[tuple[int, int]] = ()
    """Index pairs of the lines that the model marked as unchanged in `old` and `new`, ascending."""
    step: Callable[[], str] = field(default=str)
    """Returns the file's indentation for one level."""


def rewrite_block(block: AlignedBlock) -> list[str]:
    """Return the new lines in the file's style. Raises `UnclearError` if that is ambiguous."""
    if list(block.old) == list(block.here):
        return list(block.new)
    if block.old and block.new and has_lost_indent(block.old, block.new):
        raise UnclearError(block.new[0])
    rewriting = _Rewriting(block)
    if block.unchanged:
        rewriting.require_unchanged()
    return rewriting.lines()


class _Rewriting:
    def __init__(self, block: AlignedBlock) -> None:
        self.old, self.here, self.new, self.kept, self.step = (
            block.old,
            block.here,
            block.new,
            block.unchanged,
            block.step,
        )
        if self.new and _begins_with_moved(self.old, self.new):
            raise UnclearError(self.new[0])
        lost = _lost_indent(self.old, self.here)
        if lost is not None:
            self.old, self.new = _restore_indent(self.old, self.new, lost)
        else:
            is_bare = bool(self.old[0].strip()) and not indent_of(self.old[0]) and bool(indent_of(self.here[0]))
            if is_bare and _has_the_same_words(self.old, self.new):
                raise UnclearError(self.old[0])
            self._require_levels([i for i, line in enumerate(self.old) if line.strip()])
        self._require_steps()
        self.written = frozenset(indent_of(line) for line in (*self.old, *self.new) if line.strip())
        self.levels = self._levels(range(len(self.old)))
        self.signs = FilePunctuation.between("\n".join(self.old), "\n".join(self.here))
        both = list(zip(self.old, self.here, strict=True))
        self.has_more_blanks = any(old != old.rstrip() and here == here.rstrip() for old, here in both)
        self.empty_ones = _empty_ones(self.old, self.new)
        self.bodies: dict[str, set[str]] = {}
        for old, here in both:
            self.bodies.setdefault(_body(old), set()).add(_body(here))

    def lines(self) -> list[str]:
        return list(self._lines(self.kept, len(self.old), len(self.new)))

    def require_unchanged(self) -> None:
        """Check that the lines marked as unchanged can be matched in only one way, or that it makes no difference:
        without indentation, the model may have written different lines alike. Raises `UnclearError`."""
        self._same(range(len(self.old)), range(len(self.new)))

    def _require_levels(self, rows: Sequence[int]) -> None:
        """Check that the new lines are clearly indented relative to the one old line with text, if there is only one.
        `rows`: those with text. Raises `UnclearError`."""
        new = [line for line in self.new if line.strip()]
        deeper = first_step(new)
        if len(rows) != 1 or deeper is None:
            return
        before, opens = indent_of(self.here[rows[0]]), opens_block(new[0])
        if indent_of(self.old[rows[0]]):
            if self.old[rows[0]] != self.here[rows[0]] and deeper > len(indent_of(new[0])) and not opens:
                raise UnclearError(new[1])
        elif before:
            unit = len(self.step()) or 4
            fit, depths = level_fit(deeper, unit, opens=opens), [len(indent_of(line)) for line in new]
            if fit < 2 or fit <= level_fit(deeper - len(before), unit, opens=opens):
                raise UnclearError(new[1])
            if any((depth - depths[0]) % unit for depth in depths):
                raise UnclearError(next(line for line in new if (len(indent_of(line)) - depths[0]) % unit))

    def _require_steps(self) -> None:
        """Check that lines below a new line that opens a block are indented by one of the text's own steps, or not at
        all. Raises `UnclearError`."""
        old, new = ([line for line in lines if line.strip()] for lines in (self.old, self.new))
        depths = sorted({len(indent_of(line)) for line in (*old, *new)})
        step = min((after - before for before, after in pairwise(depths)), default=0)
        known = set(pairwise(old))
        for above, below in pairwise(new):
            deeper = len(indent_of(below)) - len(indent_of(above))
            if opens_block(above) and deeper > 0 and deeper != step and (above, below) not in known:
                raise UnclearError(below)

    def _levels(self, rows: range) -> Levels:
        pairs = ((indent_of(self.old[i]), indent_of(self.here[i])) for i in rows if self.old[i].strip())
        return Levels(frozenset(pairs), self.written, self.step)

    def _lines(self, kept: Sequence[tuple[int, int]], old_end: int, new_end: int) -> Iterator[str]:
        at = new_at = 0
        for old, new in [*kept, (old_end, new_end)]:
            same = self._same(range(at, old), range(new_at, new))
            for i, j in same:
                yield from self._changed_lines(range(at, i), range(new_at, j))
                yield self._unchanged_line(i, j)
                at, new_at = i + 1, j + 1
            yield from self._changed_lines(range(at, old), range(new_at, new))
            if new < new_end:
                yield self.here[old]
            at, new_at = old + 1, new + 1

    def _same(self, old: range, new: range) -> list[tuple[int, int]]:
        """Return the pairs of lines that both texts have. Raises `UnclearError` if another pairing would give a
        different result."""
        was, put = [_body(self.old[i]) for i in old], [_body(self.new[j]) for j in new]
        if len(old) * len(new) > MAX_EXACT_PAIRS:
            if len(self.levels.pairs) > len({one for one, _ in self.levels.pairs}):
                raise UnclearError(self.new[new.start])
            return [(i + old.start, j + new.start) for i, j in _equal(was, put)]
        weights = [
            [self._weight(i, j) if _body(self.new[j]) == one else 0 for j in new]
            for i, one in zip(old, was, strict=True)
        ]
        pairs = []
        for i, j, rows, may_be_new in _best_pairs(weights, len(old), len(new)):
            self._require_one_result([row + old.start for row in rows], may_be_new, j + new.start)
            pairs.append((i + old.start, j + new.start))
        return pairs

    def _weight(self, old: int, new: int) -> int:
        was, put = self.old[old], self.new[new]
        return 4 if was == put else 3 if was.rstrip() == put.rstrip() else 2

    def _require_one_result(self, rows: Sequence[int], may_be_new: bool, new: int) -> None:
        """Check that the new line has the same result whichever of these lines it is, or if it is new. Raises
        `UnclearError`."""
        if len(rows) + may_be_new < 2:
            return
        outcomes = {self._unchanged_line(row, new) for row in rows}
        if may_be_new and self.new[new].strip():
            outcomes = {outcome.rstrip() for outcome in outcomes}
            level = self.levels.of(indent_of(self.new[new]))
            outcomes.add("" if level is None else level + self._body(new).rstrip())
        if len(outcomes) > 1:
            raise UnclearError(self.new[new])

    def _unchanged_line(self, old: int, new: int) -> str:
        """Return a line that both texts have: the file's bytes, re-indented if the model moved it."""
        was, put, here = self.old[old], self.new[new], self.here[old]
        if not here.strip() and new in self.empty_ones:
            return here
        if was.rstrip() != was and put.rstrip() == put and here.rstrip() != here:
            here = here.rstrip()
        if indent_of(was) == indent_of(put) or not here.strip():
            return here
        level = self.levels.of(indent_of(put))
        if level is None:
            raise UnclearError(put)
        return level + here.lstrip(" \t")

    def _changed_lines(self, old: range, new: range) -> Iterator[str]:
        """Yield the lines that replace others, or are inserted between unchanged ones."""
        partners = self._partners(old, new)
        for j in new:
            line = self.new[j]
            if not line.strip():
                known = self.empty_ones.get(j)
                yield self.here[known] if known is not None else "" if self.has_more_blanks else line
                continue
            level = self._level(j, old, new, partners)
            if level is None:
                raise UnclearError(line)
            yield level + self._body(j, partners.get(j))

    def _level(self, new: int, old: range, among: range, partners: dict[int, int]) -> str | None:
        indent = indent_of(self.new[new])
        level = self.levels.of(indent)
        if level is not None:
            return level
        if len(self.levels.images(indent)) < 2:
            return self._levels(old).of(indent) if old and not self.levels.has_merged else None
        partner = partners.get(new)
        if partner is not None and len(old) == len(among) == len(partners) and indent == indent_of(self.old[partner]):
            return indent_of(self.here[partner])
        if len(among) > 1:
            return None
        if old:
            return self._levels(old).of(indent) if self._levels(old).images(indent) else None
        return self._level_between(indent, old.start)

    def _level_between(self, indent: str, below: int) -> str | None:
        """Return the indentation of a line between two at the same level, or None."""
        beside = [i for i in (below - 1, below) if 0 <= i < len(self.old) and indent_of(self.old[i]) == indent]
        around = {indent_of(self.here[i]) for i in beside if self.old[i].strip()}
        return around.pop() if len(beside) == 2 and len(around) == 1 else None

    def _partners(self, old: range, new: range) -> dict[int, int]:
        """Return which changed line corresponds to which old one, where that is clear."""
        if len(old) == len(new) == 1:
            return {new.start: old.start}
        if not old or len(old) * len(new) > MAX_COMPARED_PAIRS:
            return {}
        if len(old) == len(new):
            return {j: i for i, j in zip(old, new, strict=True) if self._likeness(i, j) >= MIN_LIKENESS}
        found, at = dict[int, int](), old.start
        for j in new:
            likest = max(range(at, old.stop), key=lambda i: self._likeness(i, j), default=None)
            if likest is not None and self._likeness(likest, j) >= MIN_LIKENESS:
                found[j], at = likest, likest + 1
        return found

    def _likeness(self, old: int, new: int) -> float:
        from difflib import SequenceMatcher  # noqa: PLC0415  # deferred: only changed lines of a loose match need it

        return SequenceMatcher(None, _body(self.old[old]), _body(self.new[new]), autojunk=False).ratio()

    def _body(self, new: int, partner: int | None = None) -> str:
        """Return a new line without indentation, with the file's punctuation and its partner's trailing blanks."""
        line = self.new[new].lstrip(" \t")
        known = self.bodies.get(_body(line), set())
        line = line.rstrip() if self.has_more_blanks else line
        if len(known) == 1:
            return next(iter(known)) + line[len(line.rstrip(" \t")) :]
        if partner is None:
            return self.signs.apply_to(line)
        old, here = self.old[partner].lstrip(" \t"), self.here[partner].lstrip(" \t")
        line = self.signs.carry_over(old.rstrip(), line, here.rstrip())
        is_bare = line == line.rstrip() and (old == old.rstrip() or self.has_more_blanks)
        return line + here[len(here.rstrip()) :] if is_bare else line


def _lost_indent(old: Sequence[str], here: Sequence[str]) -> str | None:
    """Return the indentation that the first line lost while the others kept theirs, or None if it lost none. Raises
    `UnclearError` if the others do not determine it."""
    first, bare = indent_of(here[0]), indent_of(old[0])
    others = {(indent_of(other), indent_of(one)) for one, other in zip(old[1:], here[1:], strict=True) if one.strip()}
    is_bare = not bare or all(one == bare + other for other, one in others)
    if not old[0].strip() or not first or not others or not is_bare:
        return None
    expected = bare + first if bare else Levels(frozenset(others)).of(first)
    if expected is not None:
        return expected if len(expected) > len(bare) else None
    if not bare and any(one and len(other) <= len(first) for other, one in others):
        raise UnclearError(old[0])
    return None


def _restore_indent(old: Sequence[str], new: Sequence[str], indent: str) -> tuple[list[str], list[str]]:
    """Restore the indentation of the first lines. Raises `UnclearError`."""
    if not new or not new[0].strip() or indent_of(new[0]) != indent_of(old[0]):
        raise UnclearError(new[0] if new else "")
    require_first_line(old, new, indent)
    return [indent + old[0].lstrip(" \t"), *old[1:]], [indent + new[0].lstrip(" \t"), *new[1:]]


def require_first_line(old: Sequence[str], new: Sequence[str], indent: str) -> None:
    """Check that the first line of the new text, which lacks its indentation like that of the old one, is meant to have
    the same. Raises `UnclearError`."""
    if _has_same_lines(old, new):
        raise UnclearError(new[0])  # the lost indentation may be what was to change
    first, bodies = _body(new[0]), [_body(line) for line in old]
    levels: set[str] = {indent}
    if first != bodies[0] or [_body(line) for line in new].count(first) != bodies.count(first):
        levels |= {indent_of(line) for line, body in zip(old[1:], bodies[1:], strict=True) if body == first}
        levels |= {indent_of(line) for line in new[1:] if _body(line) == bodies[0]}
    if len(levels) > 1 or _has_moved(old[1:], new[1:]):
        raise UnclearError(new[0])


def _has_same_lines(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same lines, ignoring empty lines and trailing blanks."""
    return [line.rstrip() for line in old if line.strip()] == [line.rstrip() for line in new if line.strip()]


def _has_the_same_words(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether both texts have the same lines, ignoring empty lines and indentation."""
    return [_body(line) for line in old if line.strip()] == [_body(line) for line in new if line.strip()]


def _empty_ones(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Map the empty lines of the new text to those of the old, if it only omits lines."""
    was, put = [_body(line) for line in old], [_body(line) for line in new]
    if len(new) >= len(old) or any(region.new_end > region.new_start for region in differing(was, put)):
        return {}
    return {j: i for i, j in _equal(was, put) if not put[j]}


def _has_moved(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether a line has a different indentation in the new text."""
    levels, new_levels = ({_body(line): list[str]() for line in lines if line.strip()} for lines in (old, new))
    for line, of in [*((line, levels) for line in old), *((line, new_levels) for line in new)]:
        if line.strip():
            of[_body(line)].append(indent_of(line))
    return any(
        found != levels[body] if len(found) == len(levels[body]) else not set(found) <= set(levels[body])
        for body, found in new_levels.items()
        if body in levels
    )


def _begins_with_moved(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the first new line is one of the old ones after the first, without its indentation. If the old text is
    not literally in the file, its first line may have lost its indentation as well."""
    first, levels = _body(new[0]), {indent_of(line) for line in old[1:] if _body(line) == _body(new[0])}
    return bool(first) and not indent_of(new[0]) and _body(old[0]) != first and bool(levels) and "" not in levels


def has_lost_indent(old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether the first new line is one of the old ones without its indentation, while the line after it kept its own.
    A line that was meant to leave its block would not have a deeper one after it."""
    first = _body(new[0])
    levels = {indent_of(line) for line in old[1:] if _body(line) == first}
    is_bare = bool(first) and not indent_of(new[0]) and _body(old[0]) != first and bool(levels) and "" not in levels
    behind = next((line for line in new[1:] if line.strip()), "")
    return is_bare and bool(indent_of(behind)) and behind in old[1:]


def _body(line: str) -> str:
    return line.strip(" \t")


def _equal(was: Sequence[str], put: Sequence[str]) -> Iterator[tuple[int, int]]:
    i = j = 0
    for region in differing(was, put):
        yield from zip(range(i, region.old_start), range(j, region.new_start), strict=True)
        i, j = region.old_end, region.new_end
    yield from zip(range(i, len(was)), range(j, len(put)), strict=True)


def _best_pairs(weights: list[list[int]], rows: int, columns: int) -> Iterator[tuple[int, int, list[int], bool]]:
    """Yield the ascending pairs with the greatest total weight. With each pair: all rows that its column can have in
    any pairing of that weight, and whether it is unpaired in some of them."""
    behind = _sums(weights, rows, columns)
    turned = _sums([row[::-1] for row in weights[::-1]], rows, columns)
    before = [row[::-1] for row in turned[::-1]]
    whole = behind[0][0]
    i = j = 0
    while i < rows and j < columns:
        weight = weights[i][j]
        if weight and weight + behind[i + 1][j + 1] == behind[i][j]:
            each = [row for row in range(rows) if weights[row][j]]
            possible = [row for row in each if before[row][j] + weights[row][j] + behind[row + 1][j + 1] == whole]
            yield i, j, possible, any(before[row][j] + behind[row][j + 1] == whole for row in range(rows + 1))
            i, j = i + 1, j + 1
        elif behind[i + 1][j] == behind[i][j]:
            i += 1
        else:
            j += 1


def _sums(weights: list[list[int]], rows: int, columns: int) -> list[list[int]]:
    """Return the greatest total weight of pairs from each corner on."""
    sums = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        row, below, here = weights[i], sums[i + 1], sums[i]
        for j in range(columns - 1, -1, -1):
            best = max(below[j], here[j + 1])
            here[j] = max(best, row[j] + below[j + 1]) if row[j] else best
    return sums
