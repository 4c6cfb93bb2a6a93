r"""Where a text that a model remembers stands in a file, and what comes in its place. Pure; every line end is `\n`.

The exact text comes first. When it is nowhere, typographic signs count as their plain ones, then blanks at line ends,
indentation, and at last the width of blanks inside a line are let go. A looser reading counts only if no stricter one
fits, and whole lines are never skipped: a wrong place is worse than an error.
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
"""Least likeness, of 100, at which lines are worth showing as a near miss."""

MAX_WINDOWS, MAX_GOAL_CHARS = 20_000, 4_000
"""Places that are compared for a near miss, and characters of what is looked for there."""

_BLANKS = regex(r"\s+")


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Where something stands in a text, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    places: tuple[TextSpan, ...]
    """In order; they may overlap."""
    closeness: Closeness

    @property
    def apart(self) -> tuple[TextSpan, ...]:
        """The places without those that begin inside the one before."""
        found: list[TextSpan] = []
        for place in self.places:
            if not found or place.start >= found[-1].end:
                found.append(place)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class LineMatches:
    starts: tuple[int, ...]
    """Indices of the lines where the wanted ones begin, in order; they may overlap."""
    closeness: Closeness


@dataclass(frozen=True, slots=True)
class NearMiss:
    first_line: int
    """Counted from 1."""
    lines: tuple[str, ...]


def find(text: str, old: str) -> Matches:
    """Every place where `old` stands, in the strictest reading that finds one."""
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
    """Whether the place begins with a part of a line's indentation."""
    before = text[text.rfind("\n", 0, place.start) + 1 : place.start]
    return bool(before) and not before.strip(" \t") and text[place.start] in " \t"


def alike(text: str, old: str) -> Matches:
    """Every place where whole lines are those of `old` in the loosest reading."""
    lines, wanted = text.split("\n"), old.removesuffix("\n").split("\n")
    starts = _starts_read(lines, wanted, 0, _without_width)
    return Matches(tuple(_places(lines, starts, len(wanted), old.endswith("\n"))), "blanks")


def is_precise(text: str, old: str, matches: Matches) -> bool:
    """Whether no more places than these are like `old` in the loosest reading: of what is not exactly as it was sent,
    the one that fits best may not be the one that is meant."""
    others = alike(text, old).places
    return len(others) <= len(matches.places) and all(
        any(place.start < other.end and other.start < place.end for place in matches.places) for other in others
    )


def find_lines(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> LineMatches:
    """Where the wanted lines stand among the others from `start` on, in the strictest reading that finds them."""
    readings = _READINGS if any(line.strip() for line in wanted) else _READINGS[:1]
    for closeness, reading in readings:
        found = _starts_read(lines, wanted, start, reading)
        if found and closeness != "exact":  # what fits one place best may be meant for one that fits as well
            found = _starts_read(lines, wanted, start, _without_width)
        if found:
            return LineMatches(tuple(found), closeness)
    return LineMatches((), "none")


def _starts_read(lines: Sequence[str], wanted: Sequence[str], start: int, reading: Callable[[str], str]) -> list[int]:
    found = _starts([reading(line) for line in lines[start:]], [reading(line) for line in wanted])
    return [at + start for at in found]


def replacement(text: str, place: TextSpan, old: str, new: str) -> Replacement:
    """What `new` is at a place where `old` was found. Raises `UnclearError` where that cannot be told."""
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
    """The place with the line end behind it, where it holds whole lines: without them no empty one is to be left."""
    start = text.rfind("\n", 0, place.start) + 1
    if text[start : place.start].strip(" \t"):
        return place
    if text[place.end - 1] == "\n" and old.endswith("\n"):  # what is before it would indent the line behind it
        return place if text[place.start] == "\n" else TextSpan(start, place.end)
    end = text.find("\n", place.end)
    if text[place.end : end if end >= 0 else None].strip(" \t"):
        return place
    return TextSpan(start, end + 1) if end >= 0 else TextSpan(max(start - 1, 0), len(text))


def apply(text: str, changes: Sequence[Replacement]) -> str:
    """The text after the changes, which are in order and do not overlap."""
    pieces, at = [], 0
    for change in changes:
        pieces += [text[at : change.start], change.text]
        at = change.end
    return "".join([*pieces, text[at:]])


def line_number(text: str, position: int) -> int:
    """The number, from 1, of the line that holds the position."""
    return text.count("\n", 0, position) + 1


def nearest(text: str, wanted: str) -> NearMiss | None:
    """The lines most like the wanted ones, when any are at all like them. Of a long text its beginning tells."""
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
    """Blanks count only between two words, and there as one."""
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
    """Where the wanted lines are, looked for by the one of them that is the longest and so the rarest."""
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
    """The lines as places in their text, with the last line end if it is wanted and there."""
    at = position = 0
    for start in starts:
        position += sum(len(line) + 1 for line in lines[at:start])
        at = start
        length = sum(len(line) + 1 for line in lines[start : start + count])
        yield TextSpan(position, position + length - (not (ends_line and start + count < len(lines))))
