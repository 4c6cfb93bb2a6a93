"""Index of the names that a preview or stub omits: files, functions, issue numbers. Pure.

What a model needs from a truncated output is usually a single name, which it then searches for, reads or changes. In
recorded sessions a line of names in each preview halves how often the rest is needed (`bench.context.recorded`), for
less than half a per cent of the cost.
"""

import sys
from collections import Counter
from collections.abc import Iterator

from ebbtide.tools.lazy import regex

MAX_INDEXED_BYTES = 1 << 16
"""Larger outputs get no index, in bytes: the first names of a long log say nothing about the rest."""
SHARE, MIN_INDEX_BYTES, MAX_INDEX_BYTES = 0.12, 900, 4_500
"""Share of an output that its index in a preview may take, and the minimum and maximum in bytes."""
_MIN_NAME_CHARS, _MAX_NAME_CHARS = 8, 80
"""Characters of a name: shorter ones match by chance."""
_MOST_ALIKE = 3
"""Number of names shown that differ only in digits: a hundred compiled files or passed tests add no information."""
LEFT_OUT = "names left out"

_WORD = regex(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_CODE_LIKE = regex(r"[0-9_.]|[a-z][A-Z]")
"""Characters that ordinary words do not contain."""
_DIGITS = regex(r"\d+")
_NUMBER = regex(r"[\d.-]*\d(?:T\d+)?|[0-9a-f]{12,}")
"""Numbers, dates and checksums."""


def index_size(size: int) -> int:
    """Size in bytes of the index in a preview of an output of `size` bytes."""
    return min(max(int(SHARE * size), MIN_INDEX_BYTES), MAX_INDEX_BYTES)


def name_index(text: str, shown: str, most: int = MIN_INDEX_BYTES, heading: str = LEFT_OUT) -> str:
    """Return a line of the first names in `text` that do not occur in `shown`, within `most` bytes; empty if there are
    none."""
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
    """Return the names in the first `MAX_INDEXED_BYTES` characters of a text, and whether more exist that differ from
    these only in digits."""
    alike = Counter[str]()
    return tuple(_names(text, alike, "", MAX_INDEXED_BYTES)), _is_any_left_out(alike)


def _names(text: str, alike: Counter[str], shown: str, end: int = sys.maxsize) -> Iterator[str]:
    """Yield each name that does not occur in `shown`, and only a few of those that differ in digits, counted in
    `alike`."""
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
    """Return all names in the first `MAX_INDEXED_BYTES` characters of a text."""
    found = {match[0] for match in _WORD.finditer(text, 0, MAX_INDEXED_BYTES)}
    return frozenset(word for word in found if _MIN_NAME_CHARS <= len(word) <= _MAX_NAME_CHARS and _is_name(word))


def _is_name(word: str) -> bool:
    return bool(_CODE_LIKE.search(word)) and not _NUMBER.fullmatch(word)
