"""Translates a model's indentation to the file's. An ambiguous result is None, never a guess."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from itertools import pairwise

from ebbtide.tools.lazy import dataclass, regex

_INDENT = regex(r"[ \t]*")

_OPENERS = (":", "{", "(", "[", " then", " do", "else", "=>")
"""A line that ends with one of these makes the next line more deeply indented."""

MAX_SCANNED_LINES = 5_000
"""Maximum number of lines scanned to determine a file's indentation step."""


def indent_of(line: str) -> str:
    match = _INDENT.match(line)
    return match[0] if match is not None else ""


def indent_step(lines: Sequence[str]) -> str:
    """Return one level of a file's indentation: a tab or spaces; empty if it is unclear."""
    indents = [indent_of(line) for line in lines[:MAX_SCANNED_LINES] if line.strip()]
    if sum(indent.startswith("\t") for indent in indents) * 2 > sum(bool(indent) for indent in indents):
        return "\t"
    counts: dict[int, int] = {}
    for above, below in zip(["", *indents], indents, strict=False):
        extra_width = len(below) - len(above)
        if extra_width > 1 and "\t" not in above + below:
            counts[extra_width] = counts.get(extra_width, 0) + 1
    return " " * max(counts, key=lambda extra_width: (counts[extra_width], -extra_width)) if counts else ""


def opens_block(line: str) -> bool:
    return line.rstrip().endswith(_OPENERS)


def second_line_indent_width(lines: Sequence[str]) -> int | None:
    """Return the indentation width of the first non-blank line after the first line. None if there is none."""
    return next((len(indent_of(line)) for line in lines[1:] if line.strip()), None)


def indent_plausibility(extra_width: int, unit: int, *, follows_opener: bool) -> int:
    """Rate, from 0 (implausible) to 2, how plausible it is that a line is `extra_width` columns deeper than the line
    above."""
    if follows_opener:
        return 2 if extra_width == unit else int(extra_width > 0)
    return 2 if extra_width == 0 else int(extra_width < 0)


@dataclass(frozen=True, slots=True)
class IndentMap:
    """Maps the indentation in a model's text to the file's indentation."""

    pairs: frozenset[tuple[str, str]]
    """For each non-blank line, its indentation as the model wrote it and as it is in the file."""
    model_indents: frozenset[str] = frozenset()
    """All indentations in the model's text, including those of new lines."""
    file_step: Callable[[], str] = field(default=str)

    def file_indents(self, indent: str) -> set[str]:
        """Return the indentations that the file uses where the model's text has this indentation."""
        return {file_indent for model_indent, file_indent in self.pairs if model_indent == indent}

    @property
    def has_merged_levels(self) -> bool:
        """Whether several indentations in the model's text correspond to one indentation in the file."""
        return len({file_indent for _, file_indent in self.pairs}) < len(
            {model_indent for model_indent, _ in self.pairs}
        )

    @property
    def is_ordered(self) -> bool:
        """Whether the order of depths is preserved: a line that is deeper in the model's text is never less deep in the
        file."""
        depths = sorted((len(model_indent), len(file_indent)) for model_indent, file_indent in self.pairs)
        return all(shallower[1] <= deeper[1] for shallower, deeper in pairwise(depths) if shallower[0] < deeper[0])

    def translate(self, indent: str) -> str | None:
        """Translate an indentation in the model's text to the file's. None if `pairs` do not determine it."""
        file_indents = self.file_indents(indent)
        if not self.is_ordered:
            return None
        if file_indents:
            return file_indents.pop() if len(file_indents) == 1 else None
        if all(model_indent == file_indent for model_indent, file_indent in self.pairs):
            return indent
        if len({model_indent for model_indent, _ in self.pairs}) < len(self.pairs):
            return None
        if (
            not indent
            and _only_indent_character([model_indent + file_indent for model_indent, file_indent in self.pairs])
            is not None
        ):
            return None  # a line at the margin may belong there even if others moved
        if len(self.pairs) > 1:
            shifted = _shift_indent(indent, self.pairs)
            return (
                shifted
                if shifted is not None
                else _scale_indent(indent, self.pairs, self.model_indents, self.file_step())
            )
        ((model_indent, file_indent),) = self.pairs
        return _indent_from_one_level(indent, model_indent, file_indent, self.model_indents, self.file_step())


def _shift_indent(indent: str, pairs: Collection[tuple[str, str]]) -> str | None:
    """Shift the indentation by the same amount as all pairs. None unless all pairs are shifted equally."""
    first_model, first_file = min(pairs)
    if first_file.endswith(first_model) and all(
        in_file == first_file.removesuffix(first_model) + in_model for in_model, in_file in pairs
    ):
        return first_file.removesuffix(first_model) + indent
    extra = first_model.removesuffix(first_file) if first_model.endswith(first_file) else ""
    if extra and all(in_model == extra + in_file for in_model, in_file in pairs):
        return indent.removeprefix(extra) if indent.startswith(extra) else None
    return None


def _scale_indent(
    indent: str, pairs: Collection[tuple[str, str]], model_indents: Collection[str], file_step: str
) -> str | None:
    """Translate the indentation if levels correspond one to one but differ in width or characters. None otherwise."""
    model_kind = _only_indent_character([model_indent for model_indent, _ in pairs] + list(model_indents))
    kind = _only_indent_character([file_indent for _, file_indent in pairs])
    if model_kind is None or kind is None:
        return None
    points = {(len(model_indent), len(file_indent)) for model_indent, file_indent in pairs}
    if model_kind != kind and all(bool(model_indent) == bool(file_indent) for model_indent, file_indent in points):
        points.add((0, 0))
    (model_start, file_start), *other_points = sorted(points)
    widths = sorted({model_start, *(model_indent for model_indent, _ in other_points), *map(len, model_indents)})
    model_step = min(wider - narrower for narrower, wider in pairwise(widths))
    slopes = {
        ((file_indent - file_start) * model_step, model_indent - model_start)
        for model_indent, file_indent in other_points
    }
    steps = {numerator // denominator if numerator % denominator == 0 else 0 for numerator, denominator in slopes}
    scaled_step = steps.pop() if len(steps) == 1 else 0
    if scaled_step <= 0 or (file_step and kind == file_step[0] and scaled_step != len(file_step)):
        return None
    if any((width - model_start) % model_step for width in widths):
        return None
    width = file_start + (len(indent) - model_start) // model_step * scaled_step
    return kind * width if width >= 0 else None


def _indent_from_one_level(
    indent: str, model_indent: str, file_indent: str, model_indents: Collection[str], file_step: str
) -> str | None:
    """Translate the indentation if only one level is known. The known indentation might be one wide level or several
    narrow ones. None if the result cannot be determined."""
    kind, model_kind = _only_indent_character([file_indent, file_step]), _only_indent_character([model_indent, indent])
    if kind is None or model_kind is None:
        return None
    if not file_step:
        return None
    if model_kind != kind and model_indent and file_indent:
        return _scale_indent(indent, [(model_indent, file_indent)], model_indents, file_step)
    width_change = len(indent) - len(model_indent)
    extra_widths = {
        width_change,
        *(
            len(other_indent) - len(model_indent)
            for other_indent in model_indents
            if _only_indent_character([other_indent]) == model_kind
        ),
    } - {0}
    smallest = min(map(abs, extra_widths))
    is_alike = model_kind == kind
    if is_alike and smallest == len(file_step):
        return _shift_indent(indent, [(model_indent, file_indent)])
    if any(extra_width % smallest for extra_width in extra_widths) or (is_alike and len(file_step) % smallest):
        return None
    if model_indent and not (
        is_alike and _level_count(model_indent, smallest) == _level_count(file_indent, len(file_step))
    ):
        return None
    width = len(file_indent) + width_change // smallest * len(file_step)
    return file_step[0] * width if width >= 0 and set(file_indent) <= {file_step[0]} else None


def _level_count(indent: str, step: int) -> float:
    return len(indent) / step


def _only_indent_character(indents: Sequence[str]) -> str | None:
    """Return the only character in the indentations, a space or tab; empty if there is none, None if both occur."""
    characters = set("".join(indents))
    return None if len(characters) > 1 else "".join(characters)
