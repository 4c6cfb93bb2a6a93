"""Translates indentation written by a model to that of the file. Pure. Ambiguous results are None, never a guess."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.lazy import dataclass, regex

_BLANKS = regex(r"[ \t]*")

_OPENERS = (":", "{", "(", "[", " then", " do", "else", "=>")
"""Line endings after which the next line is indented."""

MAX_SCANNED_LINES = 5_000
"""Maximum number of lines from which a file's indentation step is determined."""


def indent_of(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found is not None else ""


def step_of(lines: Sequence[str]) -> str:
    """Return one level of a file's indentation: a tab, some blanks, or an empty string if unclear."""
    indents = [indent_of(line) for line in lines[:MAX_SCANNED_LINES] if line.strip()]
    if sum(indent.startswith("\t") for indent in indents) * 2 > sum(bool(indent) for indent in indents):
        return "\t"
    counts: dict[int, int] = {}
    for above, below in zip(["", *indents], indents, strict=False):
        wider = len(below) - len(above)
        if wider > 1 and "\t" not in above + below:
            counts[wider] = counts.get(wider, 0) + 1
    return " " * max(counts, key=lambda wider: (counts[wider], -wider)) if counts else ""


def opens_block(line: str) -> bool:
    return line.rstrip().endswith(_OPENERS)


def first_step(lines: Sequence[str]) -> int | None:
    """Return the indentation of the first non-blank line after the first, or None."""
    return next((len(indent_of(line)) for line in lines[1:] if line.strip()), None)


def level_fit(deeper: int, unit: int, *, opens: bool) -> int:
    """Rate how plausible it is that the line after one is deeper by this much: 0 is implausible, 2 is best."""
    if opens:
        return 2 if deeper == unit else int(deeper > 0)
    return 2 if deeper == 0 else int(deeper < 0)


@dataclass(frozen=True, slots=True)
class Levels:
    """Maps the indentation in a model's text to that of the file."""

    pairs: frozenset[tuple[str, str]]
    """The indentation that the model wrote and that of the same line in the file, for all non-blank lines."""
    written: frozenset[str] = frozenset()
    """All indentations to translate."""
    step: Callable[[], str] = field(default=str)

    def images(self, indent: str) -> set[str]:
        """Return what the indentation corresponds to in the lines that both have."""
        return {here for old, here in self.pairs if old == indent}

    @property
    def has_merged(self) -> bool:
        """Whether several indentations of the model's text map to one of the file."""
        return len({here for _, here in self.pairs}) < len({old for old, _ in self.pairs})

    @property
    def is_ordered(self) -> bool:
        """Whether deeper lines in the model's text are never less deep in the file."""
        depths = sorted((len(old), len(here)) for old, here in self.pairs)
        return all(one[1] <= other[1] for one, other in pairwise(depths) if one[0] < other[0])

    def of(self, indent: str) -> str | None:
        """Return the file's indentation, or None if the lines that both have do not determine it."""
        images = self.images(indent)
        if not self.is_ordered:
            return None
        if images:
            return images.pop() if len(images) == 1 else None
        if all(old == here for old, here in self.pairs):
            return indent
        if len({old for old, _ in self.pairs}) < len(self.pairs):
            return None
        if not indent and _kind_of([old + here for old, here in self.pairs]) is not None:
            return None  # a line at the margin may well belong there, whatever else was moved
        if len(self.pairs) > 1:
            moved = _shift_indent(indent, self.pairs)
            return moved if moved is not None else _scale_indent(indent, self.pairs, self.written, self.step())
        ((old, here),) = self.pairs
        return _from_one(indent, old, here, self.written, self.step())


def _shift_indent(indent: str, pairs: Collection[tuple[str, str]]) -> str | None:
    """Return the indentation shifted as all pairs are."""
    old, here = min(pairs)
    if here.endswith(old) and all(there == here.removesuffix(old) + one for one, there in pairs):
        return here.removesuffix(old) + indent
    extra = old.removesuffix(here) if old.endswith(here) else ""
    if extra and all(one == extra + there for one, there in pairs):
        return indent.removeprefix(extra) if indent.startswith(extra) else None
    return None


def _scale_indent(indent: str, pairs: Collection[tuple[str, str]], written: Collection[str], step: str) -> str | None:
    """Return the indentation if levels correspond one to one but differ in width or kind."""
    old_kind, kind = _kind_of([old for old, _ in pairs] + list(written)), _kind_of([here for _, here in pairs])
    if old_kind is None or kind is None:
        return None
    points = {(len(old), len(here)) for old, here in pairs}
    if old_kind != kind and all(bool(old) == bool(here) for old, here in points):
        points.add((0, 0))
    (start, low), *others = sorted(points)
    widths = sorted({start, *(old for old, _ in others), *map(len, written)})
    old_step = min(after - before for before, after in pairwise(widths))
    slopes = {((here - low) * old_step, old - start) for old, here in others}
    steps = {top // bottom if top % bottom == 0 else 0 for top, bottom in slopes}
    new_step = steps.pop() if len(steps) == 1 else 0
    if new_step <= 0 or (step and kind == step[0] and new_step != len(step)):
        return None
    if any((width - start) % old_step for width in widths):
        return None
    width = low + (len(indent) - start) // old_step * new_step
    return kind * width if width >= 0 else None


def _from_one(indent: str, old: str, here: str, written: Collection[str], step: str) -> str | None:
    """Return the indentation if only one level is known, which says neither how wide a level is nor how many are below
    it."""
    kind, old_kind = _kind_of([here, step]), _kind_of([old, indent])
    if kind is None or old_kind is None:
        return None
    if not step:
        return None
    if old_kind != kind and old and here:
        return _scale_indent(indent, [(old, here)], written, step)
    extra = len(indent) - len(old)
    extras = {extra, *(len(each) - len(old) for each in written if _kind_of([each]) == old_kind)} - {0}
    least = min(map(abs, extras))
    is_alike = old_kind == kind
    if is_alike and least == len(step):
        return _shift_indent(indent, [(old, here)])
    if any(each % least for each in extras) or (is_alike and len(step) % least):
        return None
    if old and not (is_alike and _depth(old, least) == _depth(here, len(step))):
        return None
    width = len(here) + extra // least * len(step)
    return step[0] * width if width >= 0 and set(here) <= {step[0]} else None


def _depth(indent: str, step: int) -> float:
    return len(indent) / step


def _kind_of(indents: Sequence[str]) -> str | None:
    """Return the only kind of blank in the indentations, an empty string if there are none, or None for both kinds."""
    kinds = set("".join(indents))
    return None if len(kinds) > 1 else "".join(kinds)
