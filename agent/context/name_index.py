"""The names in what a preview or a line leaves out: files, functions, numbers of issues. Pure.

Most of what a model takes from an output that was cut is a single name, which it then searches for, reads or changes.
On recorded sessions a line of names in each preview halves how often the rest is needed at all
(`bench.context.recorded`), for less than half of a per cent of the cost.
"""

import sys
from collections import Counter
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

MAX_INDEXED_BYTES = 1 << 16
"""Bytes of an output above which it has no index: the first names of a long log say nothing of the rest."""
SHARE, MIN_INDEX_BYTES, MAX_INDEX_BYTES = 0.12, 900, 4_500
"""The part of an output that its index in a preview takes, and bytes of it: as many at least, and at most."""
_MIN_NAME_CHARS, _MAX_NAME_CHARS = 8, 80
"""Characters of a name: shorter ones are said by chance."""
_MOST_ALIKE = 3
"""Names that differ in numbers only: a hundred files that were compiled, or tests that passed, tell no more."""
LEFT_OUT = "names left out"

_WORD = regex(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_CODE_LIKE = regex(r"[0-9_.]|[a-z][A-Z]")
"""What words that people write do not have in them."""
_DIGITS = regex(r"\d+")
_NUMBER = regex(r"[\d.-]*\d(?:T\d+)?|[0-9a-f]{12,}")
"""Figures, dates, and sums of bytes."""


def index_size(size: int) -> int:
    """Bytes of the index in a preview of an output of so many."""
    return min(max(int(SHARE * size), MIN_INDEX_BYTES), MAX_INDEX_BYTES)


def name_index(text: str, shown: str, most: int = MIN_INDEX_BYTES, heading: str = LEFT_OUT) -> str:
    """A line of the first names of a text that do not stand in what is shown of it, in so many bytes; empty where there
    are none."""
    found, room = list[str](), most
    alike = Counter[str]()
    for name in _names(text, alike, shown):
        room -= len(name) + 1
        if room < 0:
            break
        found.append(name)
    are_more = " …" if room < 0 or _is_any_left_out(alike) else ""
    return f"\n{heading}: {' '.join(found)}{are_more}" if found else ""


def names_in_order(text: str) -> tuple[tuple[str, ...], bool]:
    """The names in the first `MAX_INDEXED_BYTES` characters of a text, as an index has them, and whether there are
    more that differ from these in numbers only."""
    alike = Counter[str]()
    return tuple(_names(text, alike, "", MAX_INDEXED_BYTES)), _is_any_left_out(alike)


def _names(text: str, alike: Counter[str], shown: str, end: int = sys.maxsize) -> Iterator[str]:
    """Each name once that does not stand in what is shown, and of those that are `alike`, which are counted, a few."""
    found = set[str]()
    for match in _WORD.finditer(text, 0, end):
        name = match[0]
        if not _MIN_NAME_CHARS <= len(name) <= _MAX_NAME_CHARS or name in found or not _is_name(name) or name in shown:
            continue
        alike[shape := _DIGITS.sub("0", name)] += 1
        if alike[shape] <= _MOST_ALIKE:
            found.add(name)
            yield name


def _is_any_left_out(alike: Counter[str]) -> bool:
    return any(count > _MOST_ALIKE for count in alike.values())


def names_of(text: str) -> frozenset[str]:
    """All the names of a text, of its first `MAX_INDEXED_BYTES` characters."""
    found = {match[0] for match in _WORD.finditer(text, 0, MAX_INDEXED_BYTES)}
    return frozenset(word for word in found if _MIN_NAME_CHARS <= len(word) <= _MAX_NAME_CHARS and _is_name(word))


def _is_name(word: str) -> bool:
    return bool(_CODE_LIKE.search(word)) and not _NUMBER.fullmatch(word)
