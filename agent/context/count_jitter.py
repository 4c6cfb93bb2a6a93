"""Decide whether low token counts come from a server that truncates or from one with noisy counts. Pure.

Both occasionally report impossibly low counts; the other counts tell them apart. A truncating server counts what it
reads exactly: each count is the previous one plus the new text, or the same again, or lower by what was dropped, and
never above its window. A noisy server is off at every request, in both directions; one that forwards requests to
several backends is off by the same share each time. In both cases the counts grow with the request. So each count is
rated by its likelihood under either model, given the earlier ones, and the likelihoods are multiplied.
"""

import math
from collections.abc import Sequence
from itertools import product

from ebbtide.tools.lazy import dataclass

_SPREADS = (0.03, 0.06, 0.12, 0.25)
"""Relative errors of noisy servers, as standard deviations: ±5 % to ±40 % if uniformly distributed."""
_FACTORS = (0.5, 0.7, 1.0, 1.4)
"""Tokens that such a server may count per estimated token."""
_NEW, _MIN_NEW_ERROR_TOKENS = 0.1, 8.0
"""Error of a good count as a share of the new text, and at least this many tokens."""
_REWRITE_ERROR_SHARE = 0.03
"""Error as a share of the whole after the view was rewritten."""
_EVEN = 0.0015
"""Relative difference at which two counts still are the same: a template may add some tokens."""
_ANYTHING, _AGAIN = 0.05, 0.2
"""Probability that a noisy count is off by any amount, and that it repeats the share of the last low count."""
_SMALLER, _BETWEEN, _LARGER = 0.9, 0.6, 0.1
"""Probability that a truncating server reads all of a request that is smaller than one it has read, in between, and
larger than one it has not. Not 0 or 1, because requests may go to several servers."""
_LOWEST = 0.45
"""Share of its window that a server still reads after its largest single drop."""


@dataclass(frozen=True, slots=True)
class RequestCount:
    """A server's count of one request."""

    counted: int
    expected: int
    """Estimated tokens of the request, based on the last count that may be complete."""
    plain: int
    """Estimated tokens of its messages, by fixed weights."""
    is_low: bool
    """The count is lower than possible."""
    is_first: bool
    """There is no earlier count, or the view was rewritten since."""
    fitting: int = 0
    """Estimated tokens without the oldest messages, so that no more is left than was read before."""


def truncation_odds(counts: Sequence[RequestCount]) -> float:
    """Log-likelihood ratio (natural logarithm) of a truncating server against a noisy one with any spread; 0 for fewer
    than two counts."""
    random = [_if_random(counts, spread, factor) for spread, factor in product(_SPREADS, _FACTORS)]
    most = max(random)
    return _if_truncating(counts) - most - math.log(sum(math.exp(one - most) for one in random) / len(random))


def _if_truncating(counts: Sequence[RequestCount]) -> float:
    """Log-likelihood of the counts for a server that reads requests only up to some size."""
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
    """Log-likelihood for a server that counts `factor` tokens per estimated token, with a relative error of `spread`.
    Its error-free count is tracked through the sequence with a Kalman filter."""
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
    """Likelihood of a count that should be `meant` tokens: usually close to it, sometimes far off (Cauchy
    distribution)."""
    off += _EVEN * meant + 1
    return off / (math.pi * (off * off + (now.counted - meant) ** 2))
