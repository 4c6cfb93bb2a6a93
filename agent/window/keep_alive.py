"""Keep a provider's cache alive while the user thinks, by sending the last request again for a single token. Whether
that pays is decided in `ebbtide.agent.context.keep_alive`."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from ebbtide.agent.context.keep_alive import is_renewal_worthwhile
from ebbtide.agent.errors import ProviderError
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished
from ebbtide.agent.messages import Conversation, Usage
from ebbtide.agent.providers.base import ModelFacts, Provider, Reply, Request
from ebbtide.agent.window.prefix_watch import RenewableRequest
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.lazy import dataclass

EARLY = 0.1
"""How long before its end a cache is used again, as a share of its lifetime."""
REPLY_TIMEOUT_S = 30.0
"""Timeout of the request in seconds. Manual changes have to wait for it."""
ONE_TOKEN = 1
"""Requested output tokens. The number does not affect the cache; if an API requires more, its minimum is used."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """When the cache is to be used again, if at all."""

    conversation: Conversation
    """The unchanged conversation."""
    wait: float | None = None
    """Seconds until then; None if it is not used again."""
    late: float = 0.0
    """Seconds after that until it is too late."""


async def next_renewal(conversation: Conversation, env: SessionContext) -> Renewal:
    """Return when to use the cache again. Sends nothing."""
    facts = env.provider.facts
    last = env.watch.renewable(facts)
    if last is None or last.renewals >= env.limits.keep_alive or not is_promised(last.request, facts):
        return Renewal(conversation)
    wait = max((1 - EARLY) * facts.cache_ttl - last.age, 0.0)
    if not is_affordable(last, wait, env):
        return Renewal(conversation)
    return Renewal(conversation, wait, facts.cache_ttl - last.age - wait)


async def renew_cache(conversation: Conversation, env: SessionContext, hear: Callable[[Event], None]) -> Renewal:
    """Use the cache now if it is time, and return when to do so again. The usage is recorded and `hear` gets the
    events. A failure is reported once, and the session does not try again."""
    now = await next_renewal(conversation, env)
    last = env.watch.renewable(env.provider.facts)
    if last is None or now.wait is None:
        return now
    try:
        reply = await _send_once(env.provider, replace(last.request, max_output_tokens=ONE_TOKEN))
    except (ProviderError, TimeoutError) as error:
        return _given_up(conversation, str(error) or f"no answer in {REPLY_TIMEOUT_S:.0f} seconds", env, hear)
    used, facts = reply.usage, env.provider.facts
    cost = facts.prices.cost(used) if facts.prices else None
    told = ReplyFinished(facts.id, reply.stop_reason, used, cost, "keep-alive")
    env.emit(told)
    hear(told)
    env.debug.log(
        "context/keep-alive",
        model=facts.id,
        cachedTokens=last.cached_tokens,
        readTokens=used.cache_read,
        writtenTokens=used.cache_write,
        renewals=last.renewals + 1,
    )
    if used.cache_read < last.cached_tokens // 2:
        return _given_up(conversation, "it was empty", env, hear)
    env.watch.note_renewal()
    return await next_renewal(conversation, env)


def is_promised(request: Request, facts: ModelFacts) -> bool:
    """Whether the provider keeps its cache for a known time, and a request for one token uses it. A model with a
    thinking budget cannot be asked for so little while it thinks, and without thinking its cache of the messages is
    lost."""
    return facts.renews_cache and (facts.thinking != "budget" or request.effort == "none")


def is_affordable(last: RenewableRequest, wait: float, env: SessionContext) -> bool:
    """Whether using the cache after `wait` seconds will probably save more than it costs, within the cost limit."""
    facts = env.provider.facts
    if facts.prices is None or env.watch.is_uncached:
        return False
    price = facts.prices.at(last.usage.prompt)
    fresh = max(last.usage.prompt - last.cached_tokens, 0)
    cost = facts.prices.cost(Usage(fresh, last.cached_tokens, 0, ONE_TOKEN))
    if env.limits.cost is not None and env.cost_so_far + cost > env.limits.cost:
        return False
    saved = last.cached_tokens * (max(price.cache_write, price.input) - price.cache_read)
    expires = last.answered - last.age + facts.cache_ttl
    return is_renewal_worthwhile(cost, saved, last.answered + wait, expires, facts.cache_ttl)


async def _send_once(provider: Provider, request: Request) -> Reply:
    """Return the reply to a single attempt, without showing any of it."""
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        async for chunk in provider.stream(request):
            if isinstance(chunk, Reply):
                return chunk
    raise AssertionError("a provider's stream ends in a reply or raises")


def _given_up(conversation: Conversation, why: str, env: SessionContext, hear: Callable[[Event], None]) -> Renewal:
    env.watch.gives_up_cache = True
    hear(Noticed(f"keeping the provider's cache alive failed and is off for this session: {why}"))
    return Renewal(conversation)
