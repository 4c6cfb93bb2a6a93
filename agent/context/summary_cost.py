"""The cost of a summary, and which model writes it for less than the one that has the conversation cached. Pure."""

from collections.abc import Sequence

from ebbtide.tools.lazy import dataclass

ASKS, WRITES = 400, 1800
"""Tokens of the request for a summary and of the summary."""

MARGIN = 0.7
"""Another model must cost less than this share of asking the model itself. Token counts of models differ by up to a
third, and one summary in ten may be rejected after payment: 0.75 · 0.9 is about this."""


@dataclass(frozen=True, slots=True)
class PerToken:
    """US dollars for one token."""

    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A summary to be written."""

    context: int
    """Tokens of the conversation for the model itself."""
    transcript: int
    """Tokens of the transcript for another model."""
    is_cached: bool = True
    """Whether the model itself would read the conversation from its cache. If not, it reads the transcript like any
    other."""


@dataclass(frozen=True, slots=True)
class SummaryOffer:
    """A model that could write summaries instead."""

    model: str
    """`provider/name`."""
    prices: PerToken | None
    """None if unknown."""
    window: int


def price_of_sharing(prices: PerToken, context: int) -> float:
    """US dollars of a request that continues the last one and asks for a summary."""
    return prices.cache_read * context + prices.cache_write * ASKS + prices.output * WRITES


def price_of_reading(prices: PerToken, transcript: int) -> float:
    """US dollars of a summary by a model that reads the transcript."""
    return prices.input * (transcript + ASKS) + prices.output * WRITES


def cheapest_reader(own: PerToken | None, job: SummaryJob, offers: Sequence[SummaryOffer]) -> str | None:
    """Return the cheapest model for the summary, if it is clearly cheaper than the model itself. An unknown price never
    wins, nor does a window that would need chunks."""
    if own is None:
        return None
    paid = price_of_sharing(own, job.context) if job.is_cached else price_of_reading(own, job.transcript)
    wanted = job.transcript + ASKS + WRITES
    known = [
        (price_of_reading(offer.prices, job.transcript), offer.model)
        for offer in offers
        if offer.prices is not None and wanted <= offer.window // 2
    ]
    cheapest = min(known, default=(paid, ""))
    return cheapest[1] if cheapest[0] < MARGIN * paid else None


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that could write summaries, and what is known about it."""

    model: str
    """`provider/name`."""
    seconds: float | None
    """Seconds it took to answer a short question; None if it did not."""
    window: int
    price: float | None = None
    """US dollars per million input tokens; None if unknown."""


MIN_WINDOW_TOKENS = 16_000
"""A smaller window would split a conversation into too many chunks."""


def fastest_first(candidates: Sequence[SummaryModel]) -> tuple[str, ...]:
    """Return the models that answered and have a large enough window, the fastest first, then the cheapest. A model
    without a price comes after those with one."""
    usable = [found for found in candidates if found.seconds is not None and found.window >= MIN_WINDOW_TOKENS]
    order = sorted(usable, key=lambda found: (found.seconds, found.price is None, found.price or 0.0, found.model))
    return tuple(dict.fromkeys(found.model for found in order))
