"""An index of the names (files, functions, issue numbers) that a preview or stub omits.

What a model needs from a truncated output is usually a single name, which it then searches for, reads or changes. In
recorded sessions, with a line of names in each preview, models needed the full output half as often, and the cost rose
by less than 0.5 % (`bench.context.recorded`).
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from ebbtide.tools.lazy import regex

MAX_INDEXED_BYTES = 1 << 16
"""Largest output that gets an index, in bytes. In a longer log, the first names say little about the rest."""
MAX_INDEX_SHARE, MIN_INDEX_BYTES, MAX_INDEX_BYTES = 0.12, 900, 4_500
"""Limits for the index in a preview: its share of the output's size, and its minimum and maximum size in bytes."""
_MIN_NAME_CHARS, _MAX_NAME_CHARS = 8, 80
"""Minimum and maximum length of a name, in characters. Shorter names would often match by chance."""
_MAX_SIMILAR_NAMES = 3
"""How many names that differ only in digits are listed. Listing a hundred compiled files or passed tests would add no
information."""
INDEX_HEADING = "names left out"

_WORD = regex(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_RUN_OF_WORDS = regex(rf"[A-Za-z0-9_.-]{{{_MIN_NAME_CHARS},}}")
"""Matches text without spaces that is long enough to contain a name."""
_IDENTIFIER_CHARS = regex(r"[0-9_.]|[a-z][A-Z]")
"""Matches characters that mark a word as an identifier."""
_DIGITS = regex(r"\d+")
_NUMBER = regex(r"[\d.-]*\d(?:T\d+)?|[0-9a-f]{12,}")
"""Numbers, dates and checksums."""


def max_index_bytes(byte_count: int) -> int:
    """Return the maximum size, in bytes, of the index for an output of `byte_count` bytes."""
    return min(max(int(MAX_INDEX_SHARE * byte_count), MIN_INDEX_BYTES), MAX_INDEX_BYTES)


def build_name_index(text: str, visible: str, max_bytes: int = MIN_INDEX_BYTES, heading: str = INDEX_HEADING) -> str:
    """Build a line that lists names from `text` that are not in `visible`, in at most `max_bytes` bytes. Empty if there
    are none."""
    names, remaining_bytes = list[str](), max_bytes
    similar_counts = Counter[str]()
    for name in _iter_dissimilar_names(_iter_names(text, sys.maxsize), similar_counts, visible):
        remaining_bytes -= len(name) + 1
        if remaining_bytes < 0:
            break
        names.append(name)
    more_mark = " …" if remaining_bytes < 0 or _has_omitted_names(similar_counts) else ""
    return f"\n{heading}: {' '.join(names)}{more_mark}" if names else ""


def without_similar_names(names: Iterable[str]) -> tuple[tuple[str, ...], bool]:
    """Omit names that differ from several earlier ones only in digits. Also return whether any were omitted."""
    similar_counts = Counter[str]()
    return tuple(_iter_dissimilar_names(names, similar_counts)), _has_omitted_names(similar_counts)


def _iter_dissimilar_names(names: Iterable[str], similar_counts: Counter[str], visible: str = "") -> Iterator[str]:
    """Yield each name that does not occur in `visible`, but only a few of the names that differ only in digits.
    `similar_counts`: how many such names have been found."""
    for name in names:
        if name in visible:
            continue
        similar_counts[shape := _DIGITS.sub("0", name)] += 1
        if similar_counts[shape] <= _MAX_SIMILAR_NAMES:
            yield name


def _has_omitted_names(similar_counts: Counter[str]) -> bool:
    return any(count > _MAX_SIMILAR_NAMES for count in similar_counts.values())


def find_names(text: str) -> frozenset[str]:
    """Return all names in the first `MAX_INDEXED_BYTES` characters of `text`."""
    return frozenset(names_in_order(text))


def names_in_order(text: str) -> tuple[str, ...]:
    """Return all names in the first `MAX_INDEXED_BYTES` characters of `text`, each once, in order."""
    return tuple(_iter_names(text, MAX_INDEXED_BYTES))


def _iter_names(text: str, end: int) -> Iterator[str]:
    """Yield each name in the first `end` characters of `text` once, in order."""
    # A resumed session looks for the names in all its outputs. Most text is in short words, which are passed over
    # first, and most of the long ones occur again.
    runs = dict.fromkeys(_RUN_OF_WORDS.findall(text, 0, end))
    for word in dict.fromkeys(word for run in runs for word in _WORD.findall(run)):
        if (
            _MIN_NAME_CHARS <= len(word) <= _MAX_NAME_CHARS
            and _IDENTIFIER_CHARS.search(word)
            and not _NUMBER.fullmatch(word)
        ):
            yield word
