r"""Finds a model's quotation in a file, and adapts its replacement. Pure; every line ending is `\n`.

An exact match comes first. Without one, the comparison successively ignores typographic punctuation, trailing blanks,
indentation and finally the width of blanks within a line. A looser reading counts only if no stricter one matches, and
whole lines are never skipped: a wrong position is worse than an error.
"""

from collections.abc import Callable, Iterator, Sequence
from re import Match
from typing import Literal, TypeAlias

from ebbtide.tools.files.alignment import AlignedBlock, rewrite_block
from ebbtide.tools.files.indentation import step_of
from ebbtide.tools.files.punctuation import plain_signs
from ebbtide.tools.files.text import Replacement
from ebbtide.tools.lazy import dataclass, regex

Closeness: TypeAlias = Literal["exact", "signs", "blanks", "none"]

LOOSEST = 60.0
"""Minimum similarity, out of 100, for lines to be shown as a near miss."""

MAX_WINDOWS, MAX_GOAL_CHARS = 20_000, 4_000
"""Maximum number of positions compared for a near miss, and of characters compared."""

_BLANKS = regex(r"\s+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A range of characters in a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    places: tuple[TextSpan, ...]
    """In order, possibly overlapping."""
    closeness: Closeness

    @property
    def apart(self) -> tuple[TextSpan, ...]:
        """The spans without those that overlap the previous one."""
        found: list[TextSpan] = []
        for place in self.places:
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
    """Counted from 1."""
    lines: tuple[str, ...]


def find(text: str, old: str) -> Matches:
    """Return every occurrence of `old`, in the strictest reading that has one."""
    exact = _occurrences(text, old)
    if exact:
        return Matches(tuple(TextSpan(at, at + len(old)) for at in exact), "exact")
    signs = _occurrences(plain_signs(text), plain_signs(old))
    if signs:
        matches = Matches(tuple(TextSpan(at, at + len(old)) for at in signs), "signs")
        return matches if is_precise(text, old, matches) else alike(text, old)
    lines = text.split("\n")
    wanted = old.removesuffix("\n").split("\n")
    found = find_lines(lines, wanted)
    return Matches(tuple(_places(lines, found.starts, len(wanted), old.endswith("\n"))), found.closeness)


def begins_inside_indent(text: str, place: TextSpan) -> bool:
    """Whether the span starts inside a line's indentation."""
    before = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return bool(before) and not before.strip(" \t") and text[place.start] in " \t"


def alike(text: str, old: str) -> Matches:
    """Return every span of whole lines that equal `old` in the loosest reading."""
    lines, wanted = text.split("\n"), old.removesuffix("\n").split("\n")
    starts = _starts_read(lines, wanted, 0, _without_width)
    return Matches(tuple(_places(lines, starts, len(wanted), old.endswith("\n"))), "blanks")


def is_precise(text: str, old: str, matches: Matches) -> bool:
    """Whether the loosest reading has no further matches. For text that is not quoted exactly, the best match may not
    be the one that is meant."""
    others = alike(text, old).places
    return len(others) <= len(matches.places) and all(
        any(place.start < other.end and other.start < place.end for place in matches.places) for other in others
    )


def find_lines(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> LineMatches:
    """Find the wanted lines from `start` on, in the strictest reading that has a match."""
    readings = _READINGS if any(line.strip() for line in wanted) else _READINGS[:1]
    for closeness, reading in readings:
        found = _starts_read(lines, wanted, start, reading)
        if found and closeness != "exact":  # the best match may not be the one that is meant
            found = _starts_read(lines, wanted, start, _without_width)
        if found:
            return LineMatches(tuple(found), closeness)
    return LineMatches((), "none")


def _starts_read(lines: Sequence[str], wanted: Sequence[str], start: int, reading: Callable[[str], str]) -> list[int]:
    found = _starts([reading(line) for line in lines[start:]], [reading(line) for line in wanted])
    return [at + start for at in found]


def replacement(text: str, place: TextSpan, old: str, new: str) -> Replacement:
    """Return the replacement for an occurrence of `old`. Raises `UnclearError` if it is ambiguous."""
    here = text[place.start : place.end]
    if here == old or not new:
        return Replacement(place.start, place.end, new)
    put = new.removesuffix("\n") if old.endswith("\n") else new
    wanted = old.removesuffix("\n").split("\n")
    lines = rewrite_block(
        AlignedBlock(
            wanted,
            here.split("\n")[: len(wanted)],
            put.split("\n"),
            step=lambda: step_of(text.split("\n")),
        )
    )
    ends = "\n" if new.endswith("\n") and here.count("\n") == len(wanted) else ""
    return Replacement(place.start, place.end, "\n".join(lines) + ends)


def whole_lines(text: str, place: TextSpan, old: str) -> TextSpan:
    """Extend the span to include the final newline if it covers whole lines, so that deleting it leaves no empty
    line."""
    start = text.rfind("\n", 0, place.start) + 1
    if text[start : place.start].strip(" \t"):
        return place
    if text[place.end - 1] == "\n" and old.endswith("\n"):  # the blanks before it would indent the next line
        return place if text[place.start] == "\n" else TextSpan(start, place.end)
    end = text.find("\n", place.end)
    if text[place.end : end if end >= 0 else None].strip(" \t"):
        return place
    return TextSpan(start, end + 1) if end >= 0 else TextSpan(max(start - 1, 0), len(text))


def apply(text: str, changes: Sequence[Replacement]) -> str:
    """Apply changes that are in order and do not overlap."""
    pieces, at = [], 0
    for change in changes:
        pieces += [text[at : change.start], change.text]
        at = change.end
    return "".join([*pieces, text[at:]])


def line_number(text: str, position: int) -> int:
    """Return the number, from 1, of the line at the position."""
    return text.count("\n", 0, position) + 1


def nearest(text: str, wanted: str) -> NearMiss | None:
    """Return the lines most similar to the wanted ones, if any are similar at all. Only the beginning of a long text is
    searched."""
    from rapidfuzz import fuzz  # noqa: PLC0415  # deferred: only a failed edit needs it

    lines, count = text.split("\n"), wanted.strip("\n").count("\n") + 1
    goal = wanted.strip("\n")[:MAX_GOAL_CHARS]
    compared = goal.count("\n") + 1
    best, best_score = -1, LOOSEST
    for first in range(min(len(lines), MAX_WINDOWS)):
        window = "\n".join(lines[first : first + compared])[: 2 * MAX_GOAL_CHARS]
        score = fuzz.ratio(window, goal, score_cutoff=best_score)
        if score > best_score or (score == best_score and best < 0 and score > 0):
            best, best_score = first, score
    return NearMiss(best + 1, tuple(lines[best : best + count])) if best >= 0 else None


def _occurrences(text: str, wanted: str) -> list[int]:
    found = []
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _without_end(line: str) -> str:
    return plain_signs(line).rstrip()


def _without_edges(line: str) -> str:
    return plain_signs(line).strip()


def _without_width(line: str) -> str:
    """Ignore blanks except between two words, where they count as one."""
    return _BLANKS.sub(_one_between_words, plain_signs(line).strip())


def _one_between_words(blanks: Match[str]) -> str:
    before, after = blanks.string[blanks.start() - 1], blanks.string[blanks.end()]
    return " " if (before.isalnum() or before == "_") and (after.isalnum() or after == "_") else ""


_READINGS: tuple[tuple[Closeness, Callable[[str], str]], ...] = (
    ("exact", str),
    ("signs", plain_signs),
    ("blanks", _without_end),
    ("blanks", _without_edges),
    ("blanks", _without_width),
)


def _starts(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Find the wanted lines, starting from the longest and so the rarest of them."""
    rarest = max(range(len(wanted)), key=lambda at: len(wanted[at]))
    goal, found = list(wanted), []
    at = _index(lines, goal[rarest], rarest)
    while at >= 0:
        if lines[at - rarest : at - rarest + len(goal)] == goal:
            found.append(at - rarest)
        at = _index(lines, goal[rarest], at + 1)
    return found


def _index(lines: Sequence[str], wanted: str, start: int) -> int:
    try:
        return lines.index(wanted, start)
    except ValueError:
        return -1


def _places(lines: Sequence[str], starts: Sequence[int], count: int, ends_line: bool) -> Iterator[TextSpan]:
    """Yield the lines as spans of the text, including the last newline if wanted and present."""
    at = position = 0
    for start in starts:
        position += sum(len(line) + 1 for line in lines[at:start])
        at = start
        length = sum(len(line) + 1 for line in lines[start : start + count])
        yield TextSpan(position, position + length - (not (ends_line and start + count < len(lines))))
