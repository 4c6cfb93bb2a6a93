"""Chooses the cheapest cache lifetime for a session. Does no I/O.

A longer lifetime makes cache writes more expensive, but saves writing everything again after a pause. Which lifetime
costs less depends on how long the user pauses between requests.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

LifetimeName: TypeAlias = Literal["5m", "1h"]


class CacheLifetime(NamedTuple):
    """A lifetime that a provider offers."""

    name: LifetimeName
    """The API's name for it."""
    seconds: float
    write_price: float
    """Price of a token written to the cache, as a multiple of the price of a fresh input token."""


ANTHROPIC_LIFETIMES = (CacheLifetime("5m", 300.0, 1.25), CacheLifetime("1h", 3600.0, 2.0))
"""Lifetimes and prices from Anthropic's documentation of prompt caching. The first is the API's default."""

DEFAULT_LIFETIME = ANTHROPIC_LIFETIMES[0]
READ_PRICE = 0.1
"""Price of a token read from Anthropic's cache, as a multiple of the price of a fresh input token."""
MIN_REQUESTS = 200
"""Minimum number of earlier requests needed to choose a lifetime."""
MAX_REQUESTS = 4000
"""Maximum number of earlier requests that are considered."""
STATIC_TOKENS = 8_000
"""Typical size of the system prompt and the tools, which stay cached when a rewrite shortens the conversation."""


class PastRequest(NamedTuple):
    """A request of an earlier session."""

    session: str
    sent_at: float
    """Unix seconds."""
    tokens: int
    """Size of the whole prompt."""


def offers_lifetimes(provider: str) -> bool:
    """Whether a provider's own API offers a choice of lifetimes at different prices."""
    return provider == "anthropic"


def lifetime_of(name: str) -> CacheLifetime:
    """Find a lifetime by name. An empty name means the default."""
    return next((lifetime for lifetime in ANTHROPIC_LIFETIMES if lifetime.name == name), DEFAULT_LIFETIME)


def input_cost(requests: Iterable[PastRequest], lifetime: CacheLifetime) -> float:
    """Compute what the prompts of the requests would have cost, measured in fresh input tokens. `requests`: sorted by
    session and time."""
    requests = tuple(requests)
    total = lifetime.write_price * requests[0].tokens if requests else 0.0
    for previous, request in pairwise(requests):
        if previous.session != request.session:
            total += lifetime.write_price * request.tokens
            continue
        # If the prompt became shorter, the conversation was rewritten, and only the beginning is unchanged.
        unchanged = previous.tokens if request.tokens >= previous.tokens else min(STATIC_TOKENS, request.tokens)
        is_cached = request.sent_at - previous.sent_at <= lifetime.seconds
        total += unchanged * (READ_PRICE if is_cached else lifetime.write_price)
        total += (request.tokens - unchanged) * lifetime.write_price
    return total


def choose_lifetime(requests: Sequence[PastRequest]) -> CacheLifetime:
    """Choose the lifetime that would have made the user's earlier requests cheapest. If there are too few requests to
    tell, choose one hour, which was cheaper in recorded sessions of other users."""
    if len(requests) < MIN_REQUESTS:
        return ANTHROPIC_LIFETIMES[-1]
    in_order = sorted(requests)
    return min(ANTHROPIC_LIFETIMES, key=lambda lifetime: input_cost(in_order, lifetime))


def lifetime_saving(requests: Sequence[PastRequest], lifetime: CacheLifetime) -> float:
    """Return the share of these requests' input cost that a lifetime saves compared with the default lifetime; negative
    if it costs more."""
    in_order = sorted(requests)
    default_cost = input_cost(in_order, DEFAULT_LIFETIME)
    return 1 - input_cost(in_order, lifetime) / default_cost if default_cost else 0.0
