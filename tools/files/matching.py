r"""Finds text quoted by a model in a file, and adapts the replacement. Pure; every line ending is `\n`.

An exact match comes first. Without one, the comparison successively ignores typographic punctuation, trailing blanks,
indentation and finally the number of blanks within a line. A looser comparison is only used if no stricter one matches,
and whole lines are never skipped: a wrong position is worse than an error.
"""

from collections.abc import Callable, Iterator, Sequence
from re import Match
from typing import Literal, TypeAlias, get_args

from ebbtide.tools.files.alignment import AlignedBlock, rewrite_block
from ebbtide.tools.files.indentation import indent_step
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.lazy import dataclass, regex

Closeness: TypeAlias = Literal["exact", "signs", "blanks", "none"]
CLOSENESS_ORDER: tuple[Closeness, ...] = get_args(Closeness)

MIN_NEAR_MISS_SCORE = 60.0
"""Minimum similarity, out of 100, for lines to be shown as a near miss."""

MAX_COMPARED_POSITIONS, MAX_COMPARED_CHARS = 20_000, 4_000
"""Maximum number of positions compared for a near miss, and maximum number of characters compared."""

_BLANKS = regex(r"\s+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A range of characters in a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    spans: tuple[TextSpan, ...]
    """The matches in order; they may overlap."""
    closeness: Closeness

    @property
    def non_overlapping(self) -> tuple[TextSpan, ...]:
        """The spans, without those that overlap a previous one."""
        found: list[TextSpan] = []
        for place in self.spans:
            if not found or place.start >= found[-1].end:
                found.append(place)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class LineMatches:
    starts: tuple[int, ...]
    """Indices of the first lines of the matches, in order, possibly overlapping."""
    closeness: Closeness


@dataclass(frozen=True, slots=True)
class NearMiss:
    first_line: int
    """Number of the first line, counted from 1."""
    lines: tuple[str, ...]


def find_text(text: str, old: str) -> Matches:
    """Return every occurrence of `old`, using the strictest comparison that finds one."""
    exact = _occurrences(text, old)
    if exact:
        return Matches(tuple(TextSpan(at, at + len(old)) for at in exact), "exact")
    signs = _occurrences(ascii_punctuation(text), ascii_punctuation(old))
    if signs:
        matches = Matches(tuple(TextSpan(at, at + len(old)) for at in signs), "signs")
        return matches if is_only_match(text, old, matches) else find_loosely(text, old)
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    found = find_lines(lines, wanted)
    return Matches(tuple(_line_spans(lines, found.starts, len(wanted), old.endswith("\n"))), found.closeness)


def begins_inside_indent(text: str, span: TextSpan) -> bool:
    """Whether the span starts inside a line's indentation."""
    before = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    return bool(before) and not before.strip(" \t") and text[span.start] in " \t"


def find_loosely(text: str, old: str) -> Matches:
    """Return every span of whole lines that equals `old` in the loosest comparison."""
    lines, wanted = text.split("\n"), old.removesuffix("\n").split("\n")
    starts = _starts_when_normalised(lines, wanted, 0, _without_inner_blanks)
    return Matches(tuple(_line_spans(lines, starts, len(wanted), old.endswith("\n"))), "blanks")


def is_only_match(text: str, old: str, matches: Matches) -> bool:
    """Whether the loosest comparison finds no further matches. If text is not quoted exactly, the best match may not be
    the intended one."""
    others = find_loosely(text, old).spans
    return len(others) <= len(matches.spans) and all(
        any(place.start < other.end and other.start < place.end for place in matches.spans) for other in others
    )


def find_lines(lines: Sequence[str], sought: Sequence[str], start: int = 0) -> LineMatches:
    """Find the wanted lines from `start` on, using the strictest comparison that finds them."""
    readings = _NORMALISERS if any(line.strip() for line in sought) else _NORMALISERS[:1]
    for closeness, reading in readings:
        found = _starts_when_normalised(lines, sought, start, reading)
        if found and closeness != "exact":  # the best match may not be the intended one
            found = _starts_when_normalised(lines, sought, start, _without_inner_blanks)
        if found:
            return LineMatches(tuple(found), closeness)
    return LineMatches((), "none")


def _starts_when_normalised(
    lines: Sequence[str], sought: Sequence[str], start: int, normalise: Callable[[str], str]
) -> list[int]:
    found = _starts([normalise(line) for line in lines[start:]], [normalise(line) for line in sought])
    return [at + start for at in found]


def adapted_replacement(text: str, span: TextSpan, old: str, new: str) -> Replacement:
    """Return the replacement for one occurrence of `old`. Raises `UnclearError` if it is ambiguous."""
    file_text = text[span.start : span.end]
    if file_text == old or not new:
        return Replacement(span.start, span.end, new)
    new_without_end = new.removesuffix("\n") if old.endswith("\n") else new
    old_lines = old.removesuffix("\n").split("\n")
    lines = rewrite_block(
        AlignedBlock(
            old_lines,
            file_text.split("\n")[: len(old_lines)],
            new_without_end.split("\n"),
            indent_step=lambda: indent_step(text.split("\n")),
        )
    )
    ends = "\n" if new.endswith("\n") and file_text.count("\n") == len(old_lines) else ""
    return Replacement(span.start, span.end, "\n".join(lines) + ends)


def extend_over_newline(text: str, span: TextSpan, old: str) -> TextSpan:
    """If the span covers whole lines, extend it to include the final newline, so that deleting it leaves no empty
    line."""
    start = text.rfind("\n", 0, span.start) + 1
    if text[start : span.start].strip(" \t"):
        return span
    if text[span.end - 1] == "\n" and old.endswith("\n"):  # remaining blanks would indent the next line
        return span if text[span.start] == "\n" else TextSpan(start, span.end)
    end = text.find("\n", span.end)
    if text[span.end : end if end >= 0 else None].strip(" \t"):
        return span
    return TextSpan(start, end + 1) if end >= 0 else TextSpan(max(start - 1, 0), len(text))


def apply_replacements(text: str, changes: Sequence[Replacement]) -> str:
    """Apply changes that are in order and do not overlap."""
    pieces, at = [], 0
    for change in changes:
        pieces += [text[at : change.start], change.text]
        at = change.end
    return "".join([*pieces, text[at:]])


def line_number(text: str, position: int) -> int:
    """Return the number, from 1, of the line at the position."""
    return text.count("\n", 0, position) + 1


def nearest_lines(text: str, sought: str) -> NearMiss | None:
    """Return the lines most similar to the wanted ones; None if no lines are similar. Only the beginning of long text
    is searched."""
    from rapidfuzz import fuzz  # noqa: PLC0415  # deferred: only a failed edit needs it

    lines, count = text.split("\n"), sought.strip("\n").count("\n") + 1
    goal = sought.strip("\n")[:MAX_COMPARED_CHARS]
    compared = goal.count("\n") + 1
    best, best_score = -1, MIN_NEAR_MISS_SCORE
    for first in range(min(len(lines), MAX_COMPARED_POSITIONS)):
        window = "\n".join(lines[first : first + compared])[: 2 * MAX_COMPARED_CHARS]
        score = fuzz.ratio(window, goal, score_cutoff=best_score)
        if score > best_score or (score == best_score and best < 0 and score > 0):
            best, best_score = first, score
    return NearMiss(best + 1, tuple(lines[best : best + count])) if best >= 0 else None


def _occurrences(text: str, sought: str) -> list[int]:
    found = []
    at = text.find(sought) if sought else -1
    while at >= 0:
        found.append(at)
        at = text.find(sought, at + 1)
    return found


def _without_trailing_blanks(line: str) -> str:
    return ascii_punctuation(line).rstrip()


def _without_edges(line: str) -> str:
    return ascii_punctuation(line).strip()


def _without_inner_blanks(line: str) -> str:
    """Remove blanks, except between two words, where they are reduced to one."""
    return _BLANKS.sub(_one_between_words, ascii_punctuation(line).strip())


def _one_between_words(blanks: Match[str]) -> str:
    before, after = blanks.string[blanks.start() - 1], blanks.string[blanks.end()]
    return " " if (before.isalnum() or before == "_") and (after.isalnum() or after == "_") else ""


_NORMALISERS: tuple[tuple[Closeness, Callable[[str], str]], ...] = (
    ("exact", str),
    ("signs", ascii_punctuation),
    ("blanks", _without_trailing_blanks),
    ("blanks", _without_edges),
    ("blanks", _without_inner_blanks),
)


def _starts(lines: Sequence[str], sought: Sequence[str]) -> list[int]:
    """Find the wanted lines. The longest one is searched for first, because it is probably the rarest."""
    rarest = max(range(len(sought)), key=lambda at: len(sought[at]))
    sought_lines, found = list(sought), []
    at = _index(lines, sought_lines[rarest], rarest)
    while at >= 0:
        if lines[at - rarest : at - rarest + len(sought_lines)] == sought_lines:
            found.append(at - rarest)
        at = _index(lines, sought_lines[rarest], at + 1)
    return found


def _index(lines: Sequence[str], sought: str, start: int) -> int:
    try:
        return lines.index(sought, start)
    except ValueError:
        return -1


def _line_spans(lines: Sequence[str], starts: Sequence[int], count: int, ends_line: bool) -> Iterator[TextSpan]:
    """Yield the lines as spans of the text, including the last newline if `ends_line` is set and there is one."""
    at = position = 0
    for start in starts:
        position += sum(len(line) + 1 for line in lines[at:start])
        at = start
        length = sum(len(line) + 1 for line in lines[start : start + count])
        yield TextSpan(position, position + length - (not (ends_line and start + count < len(lines))))
