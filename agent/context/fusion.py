"""Rankings of the same things, merged. Pure."""

from collections.abc import Sequence

DAMPING = 60
"""By which first places count little more than second ones: the constant of reciprocal rank fusion (Cormack, Clarke and
Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods", SIGIR 2009)."""


def fused(*rankings: Sequence[int]) -> dict[int, float]:
    """How well each thing does in all rankings together, each the best first. The scores of different rankings need not
    be comparable: places alone count."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, one in enumerate(ranking, 1):
            scores[one] = scores.get(one, 0.0) + 1 / (DAMPING + place)
    return scores
