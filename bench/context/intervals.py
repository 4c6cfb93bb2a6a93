"""Bootstrap intervals of figures over recordings. Pure and deterministic.

Sessions of one repository resemble each other, so a draw first resamples the repositories and then the sessions of
each. A figure is a ratio of two sums over sessions, such as regrets per step, or the cost divided by our cost."""

import random
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Parts: TypeAlias = tuple[float, float]
"""What a session adds to the numerator and to the denominator of a figure."""
Interval: TypeAlias = tuple[float, float]

DRAWS = 2_000
COVERAGE = 0.95
_SEED = 20_250


def ratio_interval(sessions: Mapping[str, Sequence[Parts]], draws: int = DRAWS) -> Interval | None:
    """Return the 95 % interval of a ratio. `sessions`: the parts of each session, by repository. None if there are
    fewer than two sessions, or if all denominators are 0."""
    repositories = [list(sessions[name]) for name in sorted(sessions) if sessions[name]]
    if sum(map(len, repositories)) < 2:
        return None
    random_source = random.Random(_SEED)
    ratios = sorted(
        ratio for _ in range(draws) if (ratio := _ratio(_resample(repositories, random_source))) is not None
    )
    return (_quantile(ratios, (1 - COVERAGE) / 2), _quantile(ratios, (1 + COVERAGE) / 2)) if ratios else None


def _resample(repositories: Sequence[Sequence[Parts]], random_source: random.Random) -> list[Parts]:
    return [
        parts
        for repository in random_source.choices(repositories, k=len(repositories))
        for parts in random_source.choices(repository, k=len(repository))
    ]


def _ratio(parts: Sequence[Parts]) -> float | None:
    below = sum(denominator for _, denominator in parts)
    return sum(numerator for numerator, _ in parts) / below if below else None


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered values, interpolated between its neighbours."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
