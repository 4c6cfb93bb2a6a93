"""Extracts the part of a text that shows why it was found. Pure."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from ebbtide.store.queries import spellings

MAX_EXCERPT_CHARS = 400
"""Characters."""
LEAD_CHARS = 120
"""Characters before the match."""
MOST_LOOKED_AT = 1000
"""Occurrences of a word that are compared."""


def excerpt(text: str, words: Sequence[str], size: int = MAX_EXCERPT_CHARS) -> str:
    """The part of the text around the rarest word, where most other words are near, or its beginning if it contains
    none. It starts at a line if one is near; omissions are marked."""
    hits = _hits(text, words)
    start = max(_best(hits, size) - LEAD_CHARS, 0) if hits else 0
    line = text.rfind("\n", max(start - LEAD_CHARS, 0), start + 1)
    start = line + 1 if line >= 0 else start
    end = min(start + size, len(text))
    shown = text[start:end].strip("\n").rstrip()
    return f"{'… ' if text[:start].strip() else ''}{shown}{' …' if text[end:].strip() else ''}"


def _hits(text: str, words: Sequence[str]) -> dict[str, list[int]]:
    """The positions of each word; whole words take precedence over parts of words."""
    forms = [_form(word) for word in sorted(words, key=len, reverse=True) if word.strip()]
    if not forms:
        return {}
    either = "|".join(forms)
    for pattern in (rf"(?<!\w)(?:{either})(?!\w)", either):
        found: dict[str, list[int]] = {}
        for match in re.finditer(pattern, text, re.IGNORECASE):
            found.setdefault(match[0].lower(), []).append(match.start())
        if found:
            return found
    return {}


def _form(word: str) -> str:
    """A pattern for a word; the parts of a compound name may be separated by anything."""
    apart, _ = spellings(word)
    return r"[\W_]*".join(map(re.escape, apart.split())) if apart else re.escape(word)


def _best(hits: Mapping[str, list[int]], size: int) -> int:
    """The first position of the rarest word that has the most different words around it."""
    rarest = min(hits.values(), key=len)

    def near(at: int) -> int:
        first, last = at - LEAD_CHARS, at + size - 2 * LEAD_CHARS
        return sum(bisect_left(places, first) < bisect_right(places, last) for places in hits.values())

    return max(rarest[:MOST_LOOKED_AT], key=near)
