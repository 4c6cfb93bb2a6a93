"""Which texts are about a query: BM25 over their words. It knows no tool."""

import math
from collections.abc import Mapping, Sequence

from tools.wording import terms_of

_SATURATION, _LENGTH = 1.2, 0.5
"""How soon another occurrence of a word counts for little, and how much long texts are marked down."""


def best_matches(query: str, documents: Sequence[Mapping[str, float]], most: int) -> tuple[int, ...]:
    """The places of at most that many documents in which words of the query stand, or others that mean the same, the
    best first; of two that are equally good the earlier one. A document is given as its words (see `words_of`) with how
    often, or how much, each is said."""
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / max(len(documents), 1) or 1.0
    scores = [0.0] * len(documents)
    answered = [0] * len(documents)
    terms = terms_of(query)
    for forms in terms:
        said = {place: _said(forms, document, lengths[place] / average) for place, document in enumerate(documents)}
        holders = [place for place, much in said.items() if much]
        rarity = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for place in holders:
            scores[place] += rarity * said[place]
            answered[place] += 1
    # What answers more of the query is better than what says one rare word of it often.
    scores = [score * (1 + count / max(len(terms), 1)) for score, count in zip(scores, answered, strict=True)]
    order = sorted((place for place, score in enumerate(scores) if score > 0), key=lambda place: -scores[place])
    return tuple(order[:most])


def _said(forms: Mapping[str, float], document: Mapping[str, float], length: float) -> float:
    """How much a document says one thing, in the form in which it says it most."""
    return max(
        (weight * _share(document[form], length) for form, weight in forms.items() if form in document), default=0
    )


def _share(count: float, length: float) -> float:
    return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * length))
