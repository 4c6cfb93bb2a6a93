"""Models that write summaries instead of the session's own model: the models that the user set, or a cheaper one. They
are connected when the first summary is needed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ebbtide.agent.budget.summary_cost import (
    SummaryCandidate,
    SummaryJob,
    TimedSummaryModel,
    cheapest_summary_model,
    sort_by_speed,
)
from ebbtide.agent.errors import AgentError, TimedOut
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import ModelFacts, Provider, Reply, Request

EventCallback = Callable[[Event], None]
ProviderConnector = Callable[[str], Awaitable[Provider]]
"""Connects to a model named `provider/name`. Raises `AgentError`."""

PROBE_TIMEOUT_S = 5.0

WAIT_NOTICE_DELAY_S, SILENCE_TIMEOUT_S = 20.0, 180.0
"""Seconds of silence after which the user is notified, and after which the session's own model writes the summary
instead. The request timeout alone is too long for this: ten minutes for a local server."""


class Summarisers:
    """Connects the summary models when they are first needed, and keeps the connections until it is closed."""

    def __init__(self, models: Sequence[str], connect: ProviderConnector, *, orders_by_speed: bool = False) -> None:
        """`models`: the models in order of preference. `orders_by_speed`: order them by speed instead."""
        self._models = tuple(dict.fromkeys(models))
        self._connect = connect
        self._orders_by_speed = orders_by_speed
        self._connected_providers: tuple[Provider, ...] | None = None

    async def __call__(self, job: SummaryJob, emit: EventCallback) -> Sequence[Provider]:
        """Return the reachable models in the order of preference. `emit` receives the events of the requests that
        measure their speed. Raises `AgentError` if none is reachable."""
        if self._connected_providers is None:
            results = await asyncio.gather(*map(self._connect, self._models), return_exceptions=True)
            errors = [result for result in results if isinstance(result, BaseException)]
            for error in errors:
                if not isinstance(error, AgentError):
                    raise error
            providers = [result for result in results if not isinstance(result, BaseException)]
            if errors and not providers:
                raise errors[0]
            self._connected_providers = (
                await _order_by_speed(providers, emit)
                if self._orders_by_speed and len(providers) > 1
                else tuple(providers)
            )
        return self._connected_providers

    async def close(self) -> None:
        for provider in self._connected_providers or ():
            await provider.close()
        self._connected_providers = None


class CheaperSummarisers:
    """Chooses a configured model that can write a summary for clearly less than the session's own."""

    def __init__(
        self, get_session_facts: Callable[[], ModelFacts], other_facts: Sequence[ModelFacts], connect: ProviderConnector
    ) -> None:
        """`get_session_facts`: returns the facts about the session's current model. `other_facts`: the models that may
        be cheaper."""
        self._get_session_facts = get_session_facts
        self._other_facts = {facts.id: facts for facts in other_facts}
        self._connect = connect
        self._provider_by_model: dict[str, Provider] = {}

    async def __call__(self, job: SummaryJob, emit: EventCallback) -> Sequence[Provider]:
        """Return the cheaper model, or nothing if there is none. A model that cannot be reached is not tried again."""
        while (model := self._cheapest_model(job)) is not None:
            try:
                if model not in self._provider_by_model:
                    self._provider_by_model[model] = await self._connect(model)
            except AgentError:
                del self._other_facts[model]
            else:
                return (self._provider_by_model[model],)
        return ()

    def _cheapest_model(self, job: SummaryJob) -> str | None:
        session_facts = self._get_session_facts()
        price = session_facts.prices.per_token(job.context_tokens) if session_facts.prices else None
        other_facts = (facts for facts in self._other_facts.values() if facts.id != session_facts.id)
        return cheapest_summary_model(price, job, tuple(_summary_candidate(facts, job) for facts in other_facts))

    async def close(self) -> None:
        for provider in self._provider_by_model.values():
            await provider.close()
        self._provider_by_model.clear()


async def with_silence_timeout(
    model: str, ask: Callable[[EventCallback], Coroutine[Any, Any, Reply]], emit: EventCallback, notify: EventCallback
) -> Reply:
    """Wait for another model's reply, unless the model is silent for too long. `emit`: receives its events. `notify`:
    receives a notice about waiting. Raises `TimedOut`, and any error of `ask`."""
    clock = asyncio.get_running_loop().time
    last_event_time, is_notified = clock(), False

    def record_event(event: Event) -> None:
        nonlocal last_event_time
        last_event_time = clock()
        emit(event)

    task = asyncio.ensure_future(ask(record_event))
    try:
        while True:
            timeout_s = SILENCE_TIMEOUT_S if is_notified else WAIT_NOTICE_DELAY_S
            await asyncio.wait({task}, timeout=max(last_event_time + timeout_s - clock(), 0.0))
            if task.done():
                return task.result()
            if clock() - last_event_time < timeout_s:
                continue
            if is_notified:
                raise TimedOut(f"no response for {SILENCE_TIMEOUT_S:.0f} s")
            is_notified = True
            message = f"`{model}` has not responded for {WAIT_NOTICE_DELAY_S:.0f} s while writing the summary"
            notify(Noticed(f"{message}; after {SILENCE_TIMEOUT_S:.0f} s the session's own model takes over"))
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _summary_candidate(facts: ModelFacts, job: SummaryJob) -> SummaryCandidate:
    return SummaryCandidate(
        facts.id, facts.prices.per_token(job.transcript_tokens) if facts.prices else None, facts.context_window
    )


async def _order_by_speed(providers: Sequence[Provider], emit: EventCallback) -> tuple[Provider, ...]:
    measured = await asyncio.gather(*(_measure_model(provider, emit) for provider in providers))
    provider_by_model = {provider.facts.id: provider for provider in providers}
    ordered = [provider_by_model[model] for model in sort_by_speed(measured)]
    return (*ordered, *(provider for provider in providers if provider not in ordered))


async def _measure_model(provider: Provider, emit: EventCallback) -> TimedSummaryModel:
    facts = provider.facts
    price = facts.prices.input if facts.prices else None
    return TimedSummaryModel(facts.id, await _measure_response(provider, emit), facts.context_window, price)


async def _measure_response(provider: Provider, emit: EventCallback) -> float | None:
    """Return how many seconds the model takes to answer a short question; None if it fails or is too slow."""
    request = Request("Answer with one word.", (User((Text("Say: ready"),)),), (), 64, "probe")
    start = time.monotonic()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            async for chunk in provider.stream(request):
                if isinstance(chunk, Reply):
                    prices = provider.facts.prices
                    cost = prices.cost(chunk.usage) if prices else None
                    emit(ReplyFinished(provider.facts.id, chunk.stop_reason, chunk.usage, cost, "probe"))
                    return time.monotonic() - start
    except (AgentError, TimeoutError):
        return None
    return None
