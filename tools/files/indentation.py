"""Translates indentation written by a model to the file's indentation. Pure. If the result is ambiguous it is None,
never a guess."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.lazy import dataclass, regex

_BLANKS = regex(r"[ \t]*")

_OPENERS = (":", "{", "(", "[", " then", " do", "else", "=>")
"""Endings of lines after which the next line is indented more deeply."""

MAX_SCANNED_LINES = 5_000
"""Maximum number of lines scanned to determine a file's indentation step."""


def indent_of(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found is not None else ""


def indent_step(lines: Sequence[str]) -> str:
    """Return one level of a file's indentation: a tab or some blanks; empty if it is unclear."""
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


def second_line_indent(lines: Sequence[str]) -> int | None:
    """Return the width of the indentation of the first non-blank line after the first line, or None."""
    return next((len(indent_of(line)) for line in lines[1:] if line.strip()), None)


def indent_plausibility(deeper: int, unit: int, *, opens: bool) -> int:
    """Rate how plausible it is that a line is deeper than the one above by this much: 0 is implausible, 2 is best."""
    if opens:
        return 2 if deeper == unit else int(deeper > 0)
    return 2 if deeper == 0 else int(deeper < 0)


@dataclass(frozen=True, slots=True)
class IndentMap:
    """Maps the indentation in a model's text to the file's indentation."""

    pairs: frozenset[tuple[str, str]]
    """The indentation of each non-blank line as the model wrote it, and as it is in the file."""
    model_indents: frozenset[str] = frozenset()
    """All indentations that are to be translated."""
    file_step: Callable[[], str] = field(default=str)

    def file_indents(self, indent: str) -> set[str]:
        """Return the file's indentations of the lines that have this indentation in the model's text."""
        return {here for old, here in self.pairs if old == indent}

    @property
    def merges_levels(self) -> bool:
        """Whether several indentations in the model's text correspond to the same one in the file."""
        return len({here for _, here in self.pairs}) < len({old for old, _ in self.pairs})

    @property
    def is_ordered(self) -> bool:
        """Whether lines that are deeper in the model's text are never less deep in the file."""
        depths = sorted((len(old), len(here)) for old, here in self.pairs)
        return all(one[1] <= other[1] for one, other in pairwise(depths) if one[0] < other[0])

    def translate(self, indent: str) -> str | None:
        """Return the file's indentation for one in the model's text; None if the lines that both texts have do not
        determine it."""
        images = self.file_indents(indent)
        if not self.is_ordered:
            return None
        if images:
            return images.pop() if len(images) == 1 else None
        if all(old == here for old, here in self.pairs):
            return indent
        if len({old for old, _ in self.pairs}) < len(self.pairs):
            return None
        if not indent and _only_blank_kind([old + here for old, here in self.pairs]) is not None:
            return None  # a line at the margin may belong there even if others moved
        if len(self.pairs) > 1:
            moved = _shift_indent(indent, self.pairs)
            return (
                moved if moved is not None else _scale_indent(indent, self.pairs, self.model_indents, self.file_step())
            )
        ((old, here),) = self.pairs
        return _indent_from_one_level(indent, old, here, self.model_indents, self.file_step())


def _shift_indent(indent: str, pairs: Collection[tuple[str, str]]) -> str | None:
    """Return the indentation, shifted by the same amount as all pairs; None if the pairs are not shifted equally."""
    old, here = min(pairs)
    if here.endswith(old) and all(there == here.removesuffix(old) + one for one, there in pairs):
        return here.removesuffix(old) + indent
    extra = old.removesuffix(here) if old.endswith(here) else ""
    if extra and all(one == extra + there for one, there in pairs):
        return indent.removeprefix(extra) if indent.startswith(extra) else None
    return None


def _scale_indent(
    indent: str, pairs: Collection[tuple[str, str]], model_indents: Collection[str], file_step: str
) -> str | None:
    """Return the indentation if levels correspond one to one but have another width or other characters; otherwise
    None."""
    old_kind, kind = (
        _only_blank_kind([old for old, _ in pairs] + list(model_indents)),
        _only_blank_kind([here for _, here in pairs]),
    )
    if old_kind is None or kind is None:
        return None
    points = {(len(old), len(here)) for old, here in pairs}
    if old_kind != kind and all(bool(old) == bool(here) for old, here in points):
        points.add((0, 0))
    (start, low), *others = sorted(points)
    widths = sorted({start, *(old for old, _ in others), *map(len, model_indents)})
    old_step = min(after - before for before, after in pairwise(widths))
    slopes = {((here - low) * old_step, old - start) for old, here in others}
    steps = {top // bottom if top % bottom == 0 else 0 for top, bottom in slopes}
    new_step = steps.pop() if len(steps) == 1 else 0
    if new_step <= 0 or (file_step and kind == file_step[0] and new_step != len(file_step)):
        return None
    if any((width - start) % old_step for width in widths):
        return None
    width = low + (len(indent) - start) // old_step * new_step
    return kind * width if width >= 0 else None


def _indent_from_one_level(
    indent: str, model_indent: str, file_indent: str, model_indents: Collection[str], file_step: str
) -> str | None:
    """Return the indentation if only one level is known, which determines neither the width of a level nor how many
    levels are below it. None if it cannot be determined."""
    kind, old_kind = _only_blank_kind([file_indent, file_step]), _only_blank_kind([model_indent, indent])
    if kind is None or old_kind is None:
        return None
    if not file_step:
        return None
    if old_kind != kind and model_indent and file_indent:
        return _scale_indent(indent, [(model_indent, file_indent)], model_indents, file_step)
    extra = len(indent) - len(model_indent)
    extras = {
        extra,
        *(len(each) - len(model_indent) for each in model_indents if _only_blank_kind([each]) == old_kind),
    } - {0}
    smallest = min(map(abs, extras))
    is_alike = old_kind == kind
    if is_alike and smallest == len(file_step):
        return _shift_indent(indent, [(model_indent, file_indent)])
    if any(each % smallest for each in extras) or (is_alike and len(file_step) % smallest):
        return None
    if model_indent and not (
        is_alike and _level_count(model_indent, smallest) == _level_count(file_indent, len(file_step))
    ):
        return None
    width = len(file_indent) + extra // smallest * len(file_step)
    return file_step[0] * width if width >= 0 and set(file_indent) <= {file_step[0]} else None


def _level_count(indent: str, step: int) -> float:
    return len(indent) / step


def _only_blank_kind(indents: Sequence[str]) -> str | None:
    """Return the only kind of blank in the indentations; empty if there are no blanks, None if there are both kinds."""
    kinds = set("".join(indents))
    return None if len(kinds) > 1 else "".join(kinds)
