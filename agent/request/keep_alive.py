"""Keeps a provider's cache alive while the user thinks, if that is worth the cost. It sends the last request again and
asks for one token."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ebbtide.agent.errors import ProviderError
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished
from ebbtide.agent.messages import Conversation, Usage
from ebbtide.agent.providers.base import ModelFacts, Provider, Reply, Request
from ebbtide.agent.window.prefix_watch import RenewableRequest
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from ebbtide.tools.lazy import dataclass

PAUSE_DISTRIBUTION: tuple[tuple[float, float], ...] = (
    (30, 0.85),
    (60, 0.69),
    (120, 0.45),
    (300, 0.25),
    (600, 0.13),
    (900, 0.098),
    (1_800, 0.065),
    (3_600, 0.037),
    (14_400, 0.022),
)
"""Distribution of the user's pauses, from 325 pauses in recorded coding sessions. Each pair is a duration in seconds
and the share of pauses that last longer. Half of the pauses that exceed five minutes end within ten."""


def share_of_longer_pauses(seconds: float) -> float:
    """Return the share of pauses that last longer than `seconds`. Between table entries, both values are interpolated
    logarithmically."""
    (shortest, shortest_share), (longest, longest_share) = PAUSE_DISTRIBUTION[0], PAUSE_DISTRIBUTION[-1]
    if seconds <= shortest:
        return 1 - (1 - shortest_share) * max(seconds, 0.0) / shortest
    for (duration, share), (next_duration, next_share) in pairwise(PAUSE_DISTRIBUTION):
        if seconds <= next_duration:
            fraction = math.log(seconds / duration) / math.log(next_duration / duration)
            return float(share * (next_share / share) ** fraction)
    return longest_share * longest / seconds


def pause_end_probability(start: float, end: float, pause_so_far: float) -> float:
    """Return the probability that a pause ends between two points in time, if it has lasted `pause_so_far`. All values
    are seconds since the beginning of the pause."""
    return max(
        share_of_longer_pauses(max(start, pause_so_far)) - share_of_longer_pauses(max(end, pause_so_far)), 0.0
    ) / share_of_longer_pauses(pause_so_far)


def is_renewal_worthwhile(
    cost: float, saving: float, pause_so_far: float, expires_at: float, cache_lifetime: float
) -> bool:
    """Whether it is worth paying `cost` to keep the cache for another `cache_lifetime` seconds. `saving`: what the
    cache saves in the next request. `pause_so_far`: length of the pause so far. `expires_at`: when the cache expires,
    in seconds since the pause began."""
    return saving * pause_end_probability(expires_at, pause_so_far + cache_lifetime, pause_so_far) > cost


RENEWAL_LEAD_SHARE = 0.1
"""How long before its expiry a cache is renewed, as a share of the cache's lifetime."""
REPLY_TIMEOUT_S = 30.0
"""Timeout of the renewal request, in seconds. It is short, because the user's changes to the conversation must wait for
the request."""
RENEWAL_OUTPUT_TOKENS = 1
"""Number of output tokens to request. It does not affect the cache. If an API requires more, its minimum is used."""


@dataclass(frozen=True, slots=True)
class RenewalPlan:
    """When the cache should be renewed, if at all."""

    conversation: Conversation
    """The unchanged conversation."""
    wait_seconds: float | None = None
    """Seconds until the renewal; None if there is none."""
    grace_seconds: float = 0.0
    """Seconds after the planned renewal until it is too late."""


async def plan_renewal(conversation: Conversation, window: WindowContext, turn: TurnContext) -> RenewalPlan:
    """Plan when to renew the cache. Sends nothing."""
    facts = window.model.facts
    last_request = window.prefix_watch.renewable_request(facts)
    if (
        last_request is None
        or last_request.renewal_count >= turn.limits.max_keep_alive_requests
        or not can_renew(last_request.request, facts)
    ):
        return RenewalPlan(conversation)
    wait_seconds = max((1 - RENEWAL_LEAD_SHARE) * facts.cache_ttl - last_request.cache_age_seconds, 0.0)
    if not is_affordable(last_request, wait_seconds, window, turn):
        return RenewalPlan(conversation)
    return RenewalPlan(conversation, wait_seconds, facts.cache_ttl - last_request.cache_age_seconds - wait_seconds)


async def renew_cache(
    conversation: Conversation, window: WindowContext, turn: TurnContext, on_event: Callable[[Event], None]
) -> RenewalPlan:
    """Renew the cache if it is due, and plan the next renewal. The usage is recorded, and `on_event` receives the
    events. If the request fails, the user is notified, and the session does not try again."""
    model = window.model
    current = await plan_renewal(conversation, window, turn)
    last_request = window.prefix_watch.renewable_request(model.facts)
    if last_request is None or current.wait_seconds is None:
        return current
    try:
        reply = await _send_once(model.provider, replace(last_request.request, max_output_tokens=RENEWAL_OUTPUT_TOKENS))
    except (ProviderError, TimeoutError) as error:
        return _give_up(conversation, str(error) or f"no answer in {REPLY_TIMEOUT_S:.0f} seconds", window, on_event)
    usage, facts = reply.usage, model.facts
    cost = facts.prices.cost(usage) if facts.prices else None
    event = ReplyFinished(facts.id, reply.stop_reason, usage, cost, "keep-alive")
    turn.emit(event)
    on_event(event)
    window.debug.log(
        "context/keep-alive",
        model=facts.id,
        cachedTokens=last_request.cached_tokens,
        readTokens=usage.cache_read,
        writtenTokens=usage.cache_write,
        renewals=last_request.renewal_count + 1,
    )
    if usage.cache_read < last_request.cached_tokens // 2:
        return _give_up(conversation, "it was empty", window, on_event)
    window.prefix_watch.record_renewal()
    return await plan_renewal(conversation, window, turn)


def can_renew(request: Request, facts: ModelFacts) -> bool:
    """Whether the provider keeps its cache for a known time, and a request for one token renews it. A model with a
    thinking budget cannot be asked for a single token unless thinking is off, and turning it off would invalidate the
    cached messages."""
    return facts.renews_cache and (facts.thinking != "budget" or request.effort == "none")


def is_affordable(
    last_request: RenewableRequest, wait_seconds: float, window: WindowContext, turn: TurnContext
) -> bool:
    """Whether renewing the cache after `wait_seconds` seconds will probably save more than it costs, and stays within
    the cost limit."""
    facts = window.model.facts
    if facts.prices is None or window.prefix_watch.is_uncached:
        return False
    price = facts.prices.per_token(last_request.usage.prompt)
    uncached_tokens = max(last_request.usage.prompt - last_request.cached_tokens, 0)
    cost = facts.prices.cost(Usage(uncached_tokens, last_request.cached_tokens, 0, RENEWAL_OUTPUT_TOKENS))
    if turn.limits.max_cost is not None and turn.cost_so_far + cost > turn.limits.max_cost:
        return False
    saving = last_request.cached_tokens * (max(price.cache_write, price.input) - price.cache_read)
    expires = last_request.idle_seconds - last_request.cache_age_seconds + facts.cache_ttl
    return is_renewal_worthwhile(cost, saving, last_request.idle_seconds + wait_seconds, expires, facts.cache_ttl)


async def _send_once(provider: Provider, request: Request) -> Reply:
    """Send a request without retries, and return the reply, which is not displayed."""
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        async for chunk in provider.stream(request):
            if isinstance(chunk, Reply):
                return chunk
    raise AssertionError("a provider's stream ends in a reply or raises")


def _give_up(
    conversation: Conversation, reason: str, window: WindowContext, on_event: Callable[[Event], None]
) -> RenewalPlan:
    window.prefix_watch.has_given_up_renewal = True
    on_event(Noticed(f"keeping the provider's cache alive failed and is off for this session: {reason}"))
    return RenewalPlan(conversation)
