"""Whether low counts come from a server that leaves something out, or from one that counts at random. Pure.

Both count less than can be now and then. What tells them apart is all the rest. A server that leaves something out
counts what it reads to the token: a count is the one before and what is new, or the same again, or less by what was
dropped, and never more than its window. A server that counts at random is off at every request, in both directions;
one that hands requests to several others is off by the same share each time. Either way its counts grow with what it
is sent. So each count is asked how likely it was of either, after those before it, and the answers are multiplied.
"""

import math
from collections.abc import Sequence
from itertools import product

from ebbtide.tools.lazy import dataclass

_SPREADS = (0.03, 0.06, 0.12, 0.25)
"""By how much of a request the counts of servers may be off that count at random, as standard deviations: ±5 % to ±40 %
where each share is as likely."""
_FACTORS = (0.5, 0.7, 1.0, 1.4)
"""Tokens that such a server may count for one that is estimated."""
_NEW, _MIN_NEW_ERROR_TOKENS = 0.1, 8.0
"""By how much of what is new a good count may be off from its estimate, in tokens at least so many."""
_REWRITE_ERROR_SHARE = 0.03
"""By how much of the whole, when a view was rewritten."""
_EVEN = 0.0015
"""By how much of the whole counts may differ that are the same: a template may add some tokens."""
_ANYTHING, _AGAIN = 0.05, 0.2
"""How often a count that is off at random is off by any amount, and how often by the share that was last too low."""
_SMALLER, _BETWEEN, _LARGER = 0.9, 0.6, 0.1
"""How often such a server reads all of a request that is smaller than one it has read, and larger than one it has not;
not always, since requests may go to several servers."""
_LOWEST = 0.45
"""What a server still reads of its window when it has dropped as much as it ever does at once."""


@dataclass(frozen=True, slots=True)
class RequestCount:
    """What a server counted of a request."""

    counted: int
    expected: int
    """Estimated tokens of the request, by the last count that may be of all."""
    plain: int
    """Estimated tokens of its messages, by weights that learn nothing."""
    is_low: bool
    """Less was counted than can be."""
    is_first: bool
    """Nothing is known of the counts before, or the view was rewritten since."""
    fitting: int = 0
    """Estimated tokens of it without the oldest messages, so that no more is left than was read before."""


def truncation_odds(counts: Sequence[RequestCount]) -> float:
    """How many times likelier these counts are of a server that leaves something out than of one that counts at random,
    however much it is off, as a natural logarithm; 0 of fewer than two."""
    random = [_if_random(counts, spread, factor) for spread, factor in product(_SPREADS, _FACTORS)]
    most = max(random)
    return _if_truncating(counts) - most - math.log(sum(math.exp(one - most) for one in random) / len(random))


def _if_truncating(counts: Sequence[RequestCount]) -> float:
    """The logarithm of how likely the counts are of a server that reads all of a request up to some size."""
    likely, before = 0.0, counts[0]
    whole = read = before.counted
    low = highest = before.counted if before.is_low else 0
    unread = before.expected if before.is_low else math.inf
    for now in counts[1:]:
        off = (
            _REWRITE_ERROR_SHARE * now.expected
            if now.is_first
            else _NEW * max(now.expected - whole, 0) + _MIN_NEW_ERROR_TOKENS
        )
        all_of_it = _near(now, now.expected, off)
        same = (_near(now, low or before.counted, 0) + _near(now, highest or before.counted, 0)) / 2
        fitting = _near(now, now.fitting, _NEW * now.fitting / 2) if now.fitting else 0
        if highest:
            grown = max(now.expected - (before.expected if before.is_low else whole), 0)
            more = (
                all_of_it if now.is_first else _near(now, before.counted + grown, _NEW * grown + _MIN_NEW_ERROR_TOKENS)
            )
            dropped = (_LOWEST * highest < now.counted < 1.03 * highest) / ((1.03 - _LOWEST) * highest)
            part = 0.25 * more + 0.3 * same + 0.25 * dropped + 0.2 * fitting
        else:
            part = 0.4 * same + 0.4 * (now.counted < now.expected) / max(now.expected, 1) + 0.2 * fitting
        is_whole = _SMALLER if now.expected <= read else _LARGER if now.expected >= unread else _BETWEEN
        likely += math.log(is_whole * all_of_it + (1 - is_whole) * part)
        if now.is_low:
            low, highest, unread = now.counted, max(highest, now.counted), min(unread, now.expected)
        else:
            whole, read = now.counted, max(read, now.counted)
        before = now
    return likely


def _if_random(counts: Sequence[RequestCount], spread: float, factor: float) -> float:
    """The same of a server that counts so many tokens for one that is estimated, and is off at random by a share of
    them. What it would count if it were not is followed through its counts (a Kalman filter)."""
    likely, plain, low = 0.0, counts[0].plain, 0.0
    size, doubt = float(counts[0].counted), (spread * counts[0].counted) ** 2
    for now in counts[1:]:
        new, plain = max(now.plain - plain, 0) * factor, now.plain
        if now.is_first:
            size, doubt = now.expected, (spread * now.expected) ** 2 + (0.12 * now.expected) ** 2
        else:
            size, doubt = size + new, doubt + (0.2 * new + 15) ** 2
        largest = max(size, now.counted, 1)
        miss, variance = now.counted - size, doubt + (spread * largest) ** 2
        off = math.exp(-miss * miss / variance / 2) / math.sqrt(2 * math.pi * variance)
        again = _near(now, low * now.expected, _MIN_NEW_ERROR_TOKENS) if low else off
        likely += math.log((1 - _AGAIN) * off + _AGAIN * again + _ANYTHING / largest)
        low = now.counted / now.expected if now.is_low else low
        trust = doubt / variance
        size, doubt = size + trust * miss, doubt * (1 - trust)
    return likely


def _near(now: RequestCount, meant: float, off: float) -> float:
    """How likely a count is that is meant to be so many tokens: mostly that, and anything now and then (Cauchy's
    distribution)."""
    off += _EVEN * meant + 1
    return off / (math.pi * (off * off + (now.counted - meant) ** 2))
