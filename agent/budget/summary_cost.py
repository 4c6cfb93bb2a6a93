"""Estimates the cost of a summary, and whether another model would be cheaper than the session's model, which has the
conversation in its cache."""

from collections.abc import Sequence

from ebbtide.tools.lazy import dataclass

SUMMARY_REQUEST_TOKENS, SUMMARY_REPLY_TOKENS = 400, 1800
"""Estimated tokens of a summary request and of the summary."""

MAX_COST_RATIO = 0.7
"""Another model must cost at most this share of what the session's model costs. The margin covers two risks: token
counts differ between models by up to a third (0.75), and up to one summary in ten is rejected after it was paid for
(0.9)."""


@dataclass(frozen=True, slots=True)
class DollarsPerToken:
    """Prices of one token, in US dollars."""

    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """A summary to be written."""

    context_tokens: int
    """Tokens of the conversation as counted for the session's model."""
    transcript_tokens: int
    """Tokens of the transcript that another model would read."""
    is_cached: bool = True
    """Whether the session's model would read the conversation from its cache. If not, it too would read the
    transcript."""


@dataclass(frozen=True, slots=True)
class SummaryCandidate:
    """A model that could write summaries in place of the session's model."""

    model: str
    """`provider/name`."""
    prices: DollarsPerToken | None
    """None if unknown."""
    window: int


def cost_with_cache(prices: DollarsPerToken, context_tokens: int) -> float:
    """Compute the cost, in US dollars, of asking for a summary in a request that continues the last one."""
    return (
        prices.cache_read * context_tokens
        + prices.cache_write * SUMMARY_REQUEST_TOKENS
        + prices.output * SUMMARY_REPLY_TOKENS
    )


def cost_of_transcript(prices: DollarsPerToken, transcript_tokens: int) -> float:
    """Compute the cost, in US dollars, of a summary by a model that reads the transcript."""
    return prices.input * (transcript_tokens + SUMMARY_REQUEST_TOKENS) + prices.output * SUMMARY_REPLY_TOKENS


def cheapest_summary_model(
    own_prices: DollarsPerToken | None, job: SummaryJob, candidates: Sequence[SummaryCandidate]
) -> str | None:
    """Choose the cheapest model for the summary; None if it is not clearly cheaper than the session's model. Never
    chooses a model with unknown prices, or one whose window is so small that the transcript must be split."""
    if own_prices is None:
        return None
    own_cost = (
        cost_with_cache(own_prices, job.context_tokens)
        if job.is_cached
        else cost_of_transcript(own_prices, job.transcript_tokens)
    )
    needed_tokens = job.transcript_tokens + SUMMARY_REQUEST_TOKENS + SUMMARY_REPLY_TOKENS
    costs = [
        (cost_of_transcript(candidate.prices, job.transcript_tokens), candidate.model)
        for candidate in candidates
        if candidate.prices is not None and needed_tokens <= candidate.window // 2
    ]
    lowest_cost, cheapest_model = min(costs, default=(own_cost, ""))
    return cheapest_model if lowest_cost < MAX_COST_RATIO * own_cost else None


@dataclass(frozen=True, slots=True)
class TimedSummaryModel:
    """A model that could write summaries, with its measured speed."""

    model: str
    """`provider/name`."""
    seconds: float | None
    """Seconds that the model took to answer a short question; None if it did not answer."""
    window: int
    price: float | None = None
    """US dollars per million input tokens; None if unknown."""


MIN_SUMMARY_WINDOW_TOKENS = 16_000
"""Minimum window of a summary model, in tokens. A smaller one would split a conversation into too many chunks."""


def sort_by_speed(candidates: Sequence[TimedSummaryModel]) -> tuple[str, ...]:
    """Return the models that answered and have a large enough window, fastest first, then cheapest. Models with an
    unknown price come after those with a known one."""
    usable_candidates = [
        candidate
        for candidate in candidates
        if candidate.seconds is not None and candidate.window >= MIN_SUMMARY_WINDOW_TOKENS
    ]
    sorted_candidates = sorted(
        usable_candidates,
        key=lambda candidate: (candidate.seconds, candidate.price is None, candidate.price or 0.0, candidate.model),
    )
    return tuple(dict.fromkeys(candidate.model for candidate in sorted_candidates))
