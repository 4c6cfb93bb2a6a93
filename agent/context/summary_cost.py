"""What a summary costs, which models could write it, and whether another one does it for less than the one that has the
conversation in its cache. Pure: prices and sizes in, a model out."""

from collections.abc import Sequence

from ebbtide.tools.lazy import dataclass

ASKS, WRITES = 400, 1800
"""Tokens of the request for a summary and of the summary."""

MARGIN = 0.7
"""A reader must cost less than this share of what asking the model itself costs. Models count the same text up to a
third apart, and one summary in ten may be refused and paid for in vain: 0.75 · 0.9 is about this."""


@dataclass(frozen=True, slots=True)
class PerToken:
    """US dollars for one token."""

    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A summary that is to be written."""

    context: int
    """Tokens of the conversation as the model itself has it."""
    transcript: int
    """Tokens of its text for a model that has not seen it."""
    is_cached: bool = True
    """The model itself would read the conversation from its cache; otherwise the text, as any other."""


@dataclass(frozen=True, slots=True)
class SummaryOffer:
    """A model that could write summaries instead."""

    model: str
    """`provider/name`."""
    prices: PerToken | None
    """None when they are not known."""
    window: int


def price_of_sharing(prices: PerToken, context: int) -> float:
    """US dollars of a request that continues the last one and asks for a summary."""
    return prices.cache_read * context + prices.cache_write * ASKS + prices.output * WRITES


def price_of_reading(prices: PerToken, transcript: int) -> float:
    """US dollars of a summary by a model that reads the transcript."""
    return prices.input * (transcript + ASKS) + prices.output * WRITES


def cheapest_reader(own: PerToken | None, job: SummaryJob, offers: Sequence[SummaryOffer]) -> str | None:
    """The model that writes the summary for the least, when that is clearly less than the model itself would cost. An
    unknown price never wins, nor does a window that would have to read in pieces."""
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
    """A model that could write summaries, with what is known of it."""

    model: str
    """`provider/name`."""
    seconds: float | None
    """How long it took to answer a short question; None when it did not."""
    window: int
    price: float | None = None
    """US dollars per million tokens of input; None when it is not known."""


MIN_WINDOW_TOKENS = 16_000
"""A window below this would cut a conversation into too many pieces."""


def fastest_first(candidates: Sequence[SummaryModel]) -> tuple[str, ...]:
    """The models that answered and can hold a conversation, the fastest first; of two that are equally fast the cheaper
    one. A model without a price comes after those with one."""
    usable = [found for found in candidates if found.seconds is not None and found.window >= MIN_WINDOW_TOKENS]
    order = sorted(usable, key=lambda found: (found.seconds, found.price is None, found.price or 0.0, found.model))
    return tuple(dict.fromkeys(found.model for found in order))
