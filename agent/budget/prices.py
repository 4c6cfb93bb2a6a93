"""A model's prices. Requests are priced in US dollars, parts of requests in multiples of the price of a fresh input
token."""

from ebbtide.agent.budget.summary_cost import DollarsPerToken
from ebbtide.agent.messages import Usage
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in US dollars per million tokens. The `long_*` prices apply to the whole request if its prompt is longer
    than `long_above`."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    long_above: int | None = None
    long_input: float | None = None
    long_output: float | None = None
    long_cache_read: float | None = None
    long_cache_write: float | None = None

    def cost(self, usage: Usage) -> float:
        """Return the cost of a request, in US dollars."""
        price = self.per_token(usage.prompt)
        return (
            usage.input * price.input
            + usage.cache_read * price.cache_read
            + usage.cache_write * price.cache_write
            + usage.output * price.output
        )

    def per_token(self, prompt_tokens: int) -> DollarsPerToken:
        """Return the prices of a request whose prompt has `prompt_tokens` tokens."""
        is_long = self.long_above is not None and prompt_tokens > self.long_above

        def price(standard_price: float, long_price: float | None) -> float:
            return (long_price if is_long and long_price is not None else standard_price) / 1_000_000

        return DollarsPerToken(
            price(self.input, self.long_input),
            price(self.output, self.long_output),
            price(self.cache_read, self.long_cache_read),
            price(self.cache_write, self.long_cache_write),
        )


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """Prices per token for cache reads, cache writes and output, as multiples of the price of a fresh input token."""

    read: float = 0.1
    write: float = 1.25
    output: float = 5.0


FREE_MODEL_PRICES = UnitPrices(0.0, 1.0, 1.0)
"""Prices of a model that costs nothing, such as a local one: cache reads are free, and all other tokens cost the same.
"""


def dollars_per_token(prices: Prices | None) -> float | None:
    """Return the price of a fresh input token, in US dollars. None if it is unknown or zero."""
    return prices.input / 1e6 if prices is not None and prices.input > 0 else None


def unit_prices(prices: Prices | None, *, is_uncached: bool = False) -> UnitPrices:
    """Return a model's prices as multiples of the price of a fresh input token. Unknown prices are assumed to be
    typical. `is_uncached`: the provider turned out not to cache."""
    if prices is None:
        return UnitPrices()
    if prices.input <= 0:
        return FREE_MODEL_PRICES
    if is_uncached:
        return UnitPrices(1.0, 1.0, prices.output / prices.input)
    return UnitPrices(
        prices.cache_read / prices.input,
        max(prices.cache_write / prices.input, 1.0),
        prices.output / prices.input,
    )
