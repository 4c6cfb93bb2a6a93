"""Which texts are about a query: BM25 over their words. It knows no tool."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_SATURATION, _LENGTH = 1.2, 0.75
"""How soon another occurrence of a word counts for little, and how much long texts are marked down."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SAID_OF_ANYTHING = {
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "get", "how", "i", "in", "into",
    "is", "it", "its", "me", "my", "need", "of", "on", "or", "some", "that", "the", "this", "to", "tool", "tools",
    "use", "using", "want", "what", "which", "with", "you", "your",
}  # fmt: skip


def words_of(text: str) -> list[str]:
    """The words of a text or a name, in lower case and without their endings: `listIssues` gives `list` and `issu`."""
    found = (word.lower() for word in _WORD.findall(text))
    return [_stem(word) for word in found if word not in _SAID_OF_ANYTHING]


def best_matches(query: str, documents: Sequence[Sequence[str]], most: int) -> tuple[int, ...]:
    """The places of at most that many documents, given as their words, in which words of the query stand, the best
    first; of two that are equally good the earlier one."""
    wanted = set(words_of(query))
    counts = [Counter(words) for words in documents]
    average = sum(map(len, documents)) / max(len(documents), 1) or 1.0
    weights = {word: _rarity(sum(word in count for count in counts), len(counts)) for word in wanted}
    scores = [
        sum(weights[word] * _share(count[word], len(words) / average) for word in wanted if word in count)
        for count, words in zip(counts, documents, strict=True)
    ]
    order = sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: -scores[place])
    return tuple(order[:most])


def _rarity(holders: int, documents: int) -> float:
    return math.log(1 + (documents - holders + 0.5) / (holders + 0.5))


def _share(count: int, length: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * length))


def _stem(word: str) -> str:
    """A word without the endings that change with its use, so that `files` finds `file`."""
    if not word.isascii() or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _without_double(word[: -len(ending)])
    return word.removesuffix("s").removesuffix("e") if not word.endswith("ss") else word


def _without_double(word: str) -> str:
    """`getting` and `get` are one word."""
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word.removesuffix("e")
