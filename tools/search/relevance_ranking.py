"""Ranks texts by relevance to a query, using BM25 with word stems and synonyms."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from ebbtide.tools.lazy import regex

SYNONYM_WEIGHT = 0.8
"""Weight of a synonym, relative to the word itself."""
_SATURATION, _LENGTH_PENALTY = 1.2, 0.5
"""BM25 parameters: saturation for repeated words, and penalty for long texts."""

_WORD = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_STOP_WORDS = {
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i", "in", "into",
    "is", "it", "its", "me", "my", "need", "of", "on", "or", "some", "that", "the", "this", "to", "tool", "tools",
    "use", "using", "want", "what", "which", "with", "you", "your",
}  # fmt: skip
_SYNONYM_GROUPS = (
    "create new add make open register launch insert",
    "get show read fetch view see display look",
    "list all which every recent what who",
    "delete remove terminate drop destroy erase",
    "update edit change modify set",
    "search find look query",
    "send post write",
    "start begin run trigger execute launch",
    "stop cancel halt kill end",
    "restart reboot retry rerun",
    "disable pause mute silence snooze",
    "restore recover undo revert",
    "copy duplicate clone",
    "check validate verify lint",
    "approve accept confirm",
    "reject decline deny",
    "grant allow permit",
    "revoke remove detach",
    "issue ticket bug",
    "person user people member",
    "event meeting appointment",
    "email mail",
    "image picture photo",
)
"""Synonyms that are common in tool names: actions, and objects of issue trackers, chats and calendars."""
_ABBREVIATIONS = {
    "vm": "virtual machine instance",
    "db": "database",
    "doc": "document",
    "repo": "repository",
    "dm": "direct message",
    "pr": "pull request",
    "env": "environment",
    "config": "configuration",
}
_DERIVATIONAL_SUFFIXES = (("est", 4), ("er", 4), ("or", 4), ("ion", 4), ("ment", 3), ("al", 4), ("ly", 4))
"""Derivational suffixes, each with the minimum number of letters that must remain before it."""


@lru_cache(4096)  # cached, because the same tools are searched repeatedly
def word_stems(text: str) -> tuple[str, ...]:
    """Return the stems of the words in text or in a name, in lower case: `listIssues` becomes `list` and `issu`."""
    return tuple(stem(word) for word in _split(text) if word not in _STOP_WORDS)


def query_terms(query: str) -> list[Mapping[str, float]]:
    """Return the matching stems for each word of a query, with their weights."""
    terms: dict[str, Mapping[str, float]] = {}
    for word in _split(query):
        own_forms = {} if word in _STOP_WORDS else {stem(word): 1.0}
        terms.setdefault(stem(word), {**dict.fromkeys(_synonyms().get(stem(word), ()), SYNONYM_WEIGHT), **own_forms})
    return [forms for forms in terms.values() if forms]


def stem(word: str) -> str:
    """Return a word without inflectional or derivational endings, so that `files` finds `file`, and `payment` finds
    `pay`."""
    if not word.isascii() or len(word) < 4:
        return word
    word = _singular(re.sub(r"(?<=...)is(e[ds]?|ing|ation)$", r"iz\1", word))
    ending = next(
        (
            suffix
            for suffix, min_letters in _DERIVATIONAL_SUFFIXES
            if word.endswith(suffix) and len(word) - len(suffix) >= min_letters
        ),
        "",
    )
    word = word.removesuffix(ending).removesuffix("e")
    return f"{word[:-1]}i" if word.endswith("y") and len(word) > 3 else word


def _split(text: str) -> Iterator[str]:
    return (word.lower() for word in _WORD.findall(text))


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed", "es"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return _without_double(word[: -len(ending)])
    return word.removesuffix("s").removesuffix("e") if not word.endswith("ss") else word


def _without_double(word: str) -> str:
    """Remove a doubled last letter or a final `e`, so that `getting` and `get` have the same stem."""
    return word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word.removesuffix("e")


@cache
def _synonyms() -> Mapping[str, set[str]]:
    """Map each stem to the stems of its synonyms."""
    synonyms: dict[str, set[str]] = {}
    for group in _SYNONYM_GROUPS:
        stems = {stem(word) for word in group.split()}
        for word_stem in stems:
            synonyms.setdefault(word_stem, set()).update(stems - {word_stem})
    for abbreviation, expansion in _ABBREVIATIONS.items():
        synonyms.setdefault(stem(abbreviation), set()).update(map(stem, expansion.split()))
    return synonyms


def find_best_matches(query: str, documents: Sequence[Mapping[str, float]], max_results: int) -> tuple[int, ...]:
    """Return the indices of up to `max_results` documents that match the query's words or their synonyms, best first.
    Ties keep their order. A document maps word stems (see `word_stems`) to counts or weights."""
    lengths = [sum(document.values()) for document in documents]
    average_length = sum(lengths) / max(len(documents), 1) or 1.0
    scores = [0.0] * len(documents)
    matched_terms = [0] * len(documents)
    terms = query_terms(query)
    for forms in terms:
        weights = {
            index: _term_score(forms, document, lengths[index] / average_length)
            for index, document in enumerate(documents)
        }
        matching_indices = [index for index, weight in weights.items() if weight]
        rarity = math.log(1 + (len(documents) - len(matching_indices) + 0.5) / (len(matching_indices) + 0.5))
        for index in matching_indices:
            scores[index] += rarity * weights[index]
            matched_terms[index] += 1
    # A document that matches more words of the query ranks above one that repeats a rare word.
    scores = [score * (1 + count / max(len(terms), 1)) for score, count in zip(scores, matched_terms, strict=True)]
    ranked_indices = sorted(
        (index for index, score in enumerate(scores) if score > 0), key=lambda index: -scores[index]
    )
    return tuple(ranked_indices[:max_results])


def _term_score(forms: Mapping[str, float], document: Mapping[str, float], length: float) -> float:
    """Return the score of a term in a document, using its best-matching form."""
    return max(
        (weight * _saturated_weight(document[form], length) for form, weight in forms.items() if form in document),
        default=0,
    )


def _saturated_weight(count: float, length: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH_PENALTY + _LENGTH_PENALTY * length))
