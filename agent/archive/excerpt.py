"""Extracts the part of a document that shows why it matched a search."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from ebbtide.store.queries import spellings

MAX_EXCERPT_CHARS = 400
"""Longest excerpt, in characters."""
CHARS_BEFORE_MATCH = 120
"""Characters before the match."""
MAX_COMPARED_HITS = 1000
"""Maximum number of occurrences of the rarest word to compare."""


def make_excerpt(text: str, words: Sequence[str], max_chars: int = MAX_EXCERPT_CHARS) -> str:
    """Return an excerpt from the place in the text where the rarest search word has the most other search words nearby.
    If no word occurs, return the beginning of the text. The excerpt starts at the beginning of a line if one is near;
    omissions are marked."""
    hits = _word_positions(text, words)
    start = max(_best_position(hits, max_chars) - CHARS_BEFORE_MATCH, 0) if hits else 0
    newline_index = text.rfind("\n", max(start - CHARS_BEFORE_MATCH, 0), start + 1)
    start = newline_index + 1 if newline_index >= 0 else start
    end = min(start + max_chars, len(text))
    passage = text[start:end].strip("\n").rstrip()
    return f"{'… ' if text[:start].strip() else ''}{passage}{' …' if text[end:].strip() else ''}"


def _word_positions(text: str, words: Sequence[str]) -> dict[str, list[int]]:
    """Return the positions of each word. Words are matched inside longer words only if none occurs as a whole word."""
    word_patterns = [_word_pattern(word) for word in sorted(words, key=len, reverse=True) if word.strip()]
    if not word_patterns:
        return {}
    alternatives = "|".join(word_patterns)
    for pattern in (rf"(?<!\w)(?:{alternatives})(?!\w)", alternatives):
        positions: dict[str, list[int]] = {}
        for match in re.finditer(pattern, text, re.IGNORECASE):
            positions.setdefault(match[0].lower(), []).append(match.start())
        if positions:
            return positions
    return {}


def _word_pattern(word: str) -> str:
    """Return a regular expression for a word. Any separator may occur between the parts of a compound name."""
    separated, _ = spellings(word)
    return r"[\W_]*".join(map(re.escape, separated.split())) if separated else re.escape(word)


def _best_position(hits: Mapping[str, list[int]], size: int) -> int:
    """Among the occurrences of the rarest word, find the one with the most other words around it; on a tie, the
    first."""
    rarest = min(hits.values(), key=len)

    def count_nearby_words(position: int) -> int:
        start, end = position - CHARS_BEFORE_MATCH, position + size - 2 * CHARS_BEFORE_MATCH
        return sum(bisect_left(positions, start) < bisect_right(positions, end) for positions in hits.values())

    return max(rarest[:MAX_COMPARED_HITS], key=count_nearby_words)
