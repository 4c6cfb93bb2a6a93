r"""Where a text that a model remembers stands in a file. Pure; every line end is `\n`.

The exact text comes first. When it is nowhere, typographic signs count as their plain ones, then blanks at line ends
and indentation are let go, then the width of blanks inside a line. A looser reading counts only if no stricter one
fits, and whole lines are never skipped: a wrong place is worse than an error.
"""

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Literal, TypeAlias

from tools.files.text import Replacement
from tools.lazy import dataclass

Closeness: TypeAlias = Literal["exact", "signs", "blanks", "none"]

LOOSEST = 60.0
"""Least likeness, of 100, at which lines are worth showing as a near miss."""

MOST_WINDOWS = 20_000

_PLAIN_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u202f\u3000", " "),
    }
)
"""One character for one, so that positions stay the same."""


@dataclass(frozen=True, slots=True)
class Matches:
    changes: tuple[Replacement, ...]
    closeness: Closeness


@dataclass(frozen=True, slots=True)
class NearMiss:
    first_line: int
    """Counted from 1."""
    lines: tuple[str, ...]


def find_match(text: str, old: str, new: str) -> Matches:
    """Every place where `old` stands, in the strictest reading that finds one, with what `new` is there."""
    exact = _occurrences(text, old)
    if exact:
        return Matches(tuple(Replacement(at, at + len(old), new) for at in exact), "exact")
    signs = _occurrences(plain_signs(text), plain_signs(old))
    if signs:
        return Matches(tuple(_trimmed(at, old, new) for at in signs), "signs")
    for key in (_without_edges, _without_width):
        changes = _by_lines(text, old, new, key)
        if changes:
            return Matches(changes, "blanks")
    return Matches((), "none")


def apply(text: str, changes: tuple[Replacement, ...]) -> str:
    """The text after the changes, which are in order and do not overlap."""
    pieces, at = [], 0
    for change in changes:
        pieces += [text[at : change.start], change.text]
        at = change.end
    return "".join([*pieces, text[at:]])


def line_number(text: str, position: int) -> int:
    """The number, from 1, of the line that holds the position."""
    return text.count("\n", 0, position) + 1


def plain_signs(text: str) -> str:
    return text if text.isascii() else text.translate(_PLAIN_SIGNS)


def nearest(text: str, wanted: str) -> NearMiss | None:
    """The lines most like the wanted ones, when any are at all like them."""
    from rapidfuzz import fuzz  # noqa: PLC0415  # deferred: only a failed edit needs it

    lines, count = text.split("\n"), wanted.strip("\n").count("\n") + 1
    goal = wanted.strip("\n")
    best, best_score = -1, LOOSEST
    for first in range(min(len(lines), MOST_WINDOWS)):
        window = "\n".join(lines[first : first + count])
        score = fuzz.ratio(window, goal, score_cutoff=best_score)
        if score > best_score or (score == best_score and best < 0 and score > 0):
            best, best_score = first, score
    return NearMiss(best + 1, tuple(lines[best : best + count])) if best >= 0 else None


def _occurrences(text: str, wanted: str) -> list[int]:
    found = []
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        found.append(at)
        at = text.find(wanted, at + len(wanted))
    return found


def _trimmed(at: int, old: str, new: str) -> Replacement:
    """The change without what old and new begin and end with, so that typographic signs there stay."""
    head = _shared_start(old, new)
    tail = _shared_start(old[head:][::-1], new[head:][::-1])
    return Replacement(at + head, at + len(old) - tail, new[head : len(new) - tail])


def _shared_start(one: str, other: str) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(len(one), len(other))
    )


def _without_edges(line: str) -> str:
    return plain_signs(line).strip()


def _without_width(line: str) -> str:
    return " ".join(plain_signs(line).split())


def _by_lines(text: str, old: str, new: str, key: Callable[[str], str]) -> tuple[Replacement, ...]:
    """The places where whole lines are the old ones once `key` has been applied to both."""
    ends_line = old.endswith("\n")
    wanted = old.removesuffix("\n").split("\n")
    keys = [key(line) for line in wanted]
    if not any(keys):
        return ()
    lines = text.split("\n")
    found_keys = [key(line) for line in lines]
    starts = _line_starts(lines)
    changes, first = [], 0
    while first + len(keys) <= len(lines):
        last = first + len(keys)
        if found_keys[first:last] != keys:
            first += 1
            continue
        changes.append(_change(lines[first:last], starts[first], wanted, new, ends_line, last == len(lines)))
        first = last
    return tuple(changes)


def _change(found: list[str], start: int, wanted: list[str], new: str, ends_line: bool, at_end: bool) -> Replacement:
    takes_newline = ends_line and not at_end
    end = start + sum(len(line) + 1 for line in found) - (not takes_newline)
    put = reindented(new, wanted, found)
    return Replacement(start, end, put.removesuffix("\n") if ends_line and at_end else put)


def _line_starts(lines: list[str]) -> list[int]:
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    return starts


def reindented(new: str, wanted: list[str], found: list[str]) -> str:
    """The new text with the indentation of the file: an indent that stands in the old text as its counterpart there,
    any other one as the nearest of those, with the rest in the file's own kind of blank."""
    pairs = [(old, here) for old, here in zip(wanted, found, strict=True) if old.strip()]
    indents = {(_indent(old), _indent(here)) for old, here in pairs}
    if all(old == here for old, here in indents):
        return new
    known = {_indent(old): _indent(here) for old, here in reversed(pairs)}
    lines = new.split("\n")
    beside = _counterparts(lines, wanted, found) if len(indents) > len(known) else [None] * len(lines)
    return "\n".join(
        line if not line.strip() else _moved(line, known) if here is None else _indent(here) + line.lstrip(" \t")
        for line, here in zip(lines, beside, strict=True)
    )


def _counterparts(lines: list[str], wanted: list[str], found: list[str]) -> list[str | None]:
    """For lines whose indents do not tell levels apart: the file's line with the same words, or in the same place."""
    same_words = {old.strip(): here for old, here in zip(wanted, found, strict=True)}
    in_place: list[str | None] = list(found) if len(found) == len(lines) else [None] * len(lines)
    return [same_words.get(line.strip(), here) for line, here in zip(lines, in_place, strict=True)]


def _moved(line: str, known: Mapping[str, str]) -> str:
    indent, body = _indent(line), line.lstrip(" \t")
    if indent in known:
        return known[indent] + body
    shorter = [old for old in known if indent.startswith(old)]
    if shorter:
        base = max(shorter, key=len)
        return known[base] + _in_kind(indent[len(base) :], known) + body
    base = min(known, key=len)
    outward = _in_kind(base[len(indent) :], known) if base.startswith(indent) else ""
    return known[base].removesuffix(outward) + body


def _in_kind(blanks: str, known: Mapping[str, str]) -> str:
    """Blanks of the old text's kind as blanks of the file's kind, level by level where a level is known."""
    pairs = sorted(known.items(), key=lambda pair: len(pair[0]))
    if set("".join(known)) != set("".join(known.values())):
        pairs = [("", ""), *pairs]
    for (old, here), (deeper_old, deeper_here) in pairwise(pairs):
        old_step, step = len(deeper_old) - len(old), deeper_here.removeprefix(here)
        if old_step > 0 and 0 < len(step) < len(deeper_here) + (not here) and len(blanks) % old_step == 0:
            return step * (len(blanks) // old_step)
    return blanks


def _indent(line: str) -> str:
    found = re.match(r"[ \t]*", line)
    return found[0] if found is not None else ""
