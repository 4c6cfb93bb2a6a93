"""Other models that write summaries, connected when the first summary is needed: those that the user set, or a
cheaper one."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from ebbtide.agent.context.summary_cost import SummaryJob, SummaryModel, SummaryOffer, cheapest_reader, fastest_first
from ebbtide.agent.errors import AgentError, TimedOut
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import ModelFacts, Provider, Reply, Request

Emit = Callable[[Event], None]
Connect = Callable[[str], Awaitable[Provider]]
"""Connects to a model, `provider/name`. Raises `AgentError`."""

PROBE_SECONDS = 5.0

WAIT_NOTICE_DELAY_S, SILENCE_TIMEOUT_S = 20.0, 180.0
"""Seconds of silence after which a notice says what is being waited for, and after which the session's own model
writes the summary instead. The timeout of a local server is ten minutes."""


class Summarisers:
    """Connects the summary models once, and closes them at the end."""

    def __init__(self, models: Sequence[str], connect: Connect, *, measure: bool = False) -> None:
        """`models`: in order of preference. `measure`: put the fastest one first."""
        self._models = tuple(dict.fromkeys(models))
        self._connect = connect
        self._measure = measure
        self._found: tuple[Provider, ...] | None = None

    async def __call__(self, job: SummaryJob, emit: Emit) -> Sequence[Provider]:
        """The reachable models, in the order to ask them. Requests made to measure them are reported. Raises
        `AgentError` if none is reachable."""
        if self._found is None:
            connected = await asyncio.gather(*map(self._connect, self._models), return_exceptions=True)
            failed = [found for found in connected if isinstance(found, BaseException)]
            for failure in failed:
                if not isinstance(failure, AgentError):
                    raise failure
            providers = [found for found in connected if not isinstance(found, BaseException)]
            if failed and not providers:
                raise failed[0]
            self._found = (
                await _order_by_speed(providers, emit) if self._measure and len(providers) > 1 else tuple(providers)
            )
        return self._found

    async def close(self) -> None:
        for provider in self._found or ():
            await provider.close()
        self._found = None


class CheaperSummarisers:
    """Chooses a configured model that writes the summary for clearly less than the session's own."""

    def __init__(self, own: Callable[[], ModelFacts], others: Sequence[ModelFacts], connect: Connect) -> None:
        """`own` returns the session's current model."""
        self._own = own
        self._others = {facts.id: facts for facts in others}
        self._connect = connect
        self._found: dict[str, Provider] = {}

    async def __call__(self, job: SummaryJob, emit: Emit) -> Sequence[Provider]:
        """The model to ask, or none. A model that cannot be reached is skipped from then on."""
        while (model := self._cheapest(job)) is not None:
            try:
                if model not in self._found:
                    self._found[model] = await self._connect(model)
            except AgentError:
                del self._others[model]
            else:
                return (self._found[model],)
        return ()

    def _cheapest(self, job: SummaryJob) -> str | None:
        own = self._own()
        price = own.prices.at(job.context) if own.prices else None
        others = (facts for facts in self._others.values() if facts.id != own.id)
        return cheapest_reader(price, job, tuple(_offer(facts, job) for facts in others))

    async def close(self) -> None:
        for provider in self._found.values():
            await provider.close()
        self._found.clear()


async def with_silence_timeout(
    model: str, ask: Callable[[Emit], Coroutine[Any, Any, Reply]], hear: Emit, tell: Emit
) -> Reply:
    """The reply of another model, as long as it does not fall silent. `hear` receives its events, `tell` a notice
    about waiting. Raises `TimedOut`, and what `ask` raises."""
    clock = asyncio.get_running_loop().time
    heard, is_told = clock(), False

    def note(event: Event) -> None:
        nonlocal heard
        heard = clock()
        hear(event)

    asked = asyncio.ensure_future(ask(note))
    try:
        while True:
            limit = SILENCE_TIMEOUT_S if is_told else WAIT_NOTICE_DELAY_S
            await asyncio.wait({asked}, timeout=max(heard + limit - clock(), 0.0))
            if asked.done():
                return asked.result()
            if clock() - heard < limit:
                continue
            if is_told:
                raise TimedOut(f"no response for {SILENCE_TIMEOUT_S:.0f} s")
            is_told = True
            silent = f"`{model}` has not responded for {WAIT_NOTICE_DELAY_S:.0f} s while writing the summary"
            tell(Noticed(f"{silent}; after {SILENCE_TIMEOUT_S:.0f} s the session's own model takes over"))
    finally:
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)


def _offer(facts: ModelFacts, job: SummaryJob) -> SummaryOffer:
    return SummaryOffer(facts.id, facts.prices.at(job.transcript) if facts.prices else None, facts.context_window)


async def _order_by_speed(providers: Sequence[Provider], emit: Emit) -> tuple[Provider, ...]:
    measured = await asyncio.gather(*(_measure_model(provider, emit) for provider in providers))
    by_model = {provider.facts.id: provider for provider in providers}
    first = [by_model[model] for model in fastest_first(measured)]
    return (*first, *(provider for provider in providers if provider not in first))


async def _measure_model(provider: Provider, emit: Emit) -> SummaryModel:
    facts = provider.facts
    price = facts.prices.input if facts.prices else None
    return SummaryModel(facts.id, await _seconds(provider, emit), facts.context_window, price)


async def _seconds(provider: Provider, emit: Emit) -> float | None:
    """Seconds the model takes to answer a short question; None if it fails or is too slow."""
    request = Request("Answer with one word.", (User((Text("Say: ready"),)),), (), 64, "probe")
    start = time.monotonic()
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            async for chunk in provider.stream(request):
                if isinstance(chunk, Reply):
                    prices = provider.facts.prices
                    cost = prices.cost(chunk.usage) if prices else None
                    emit(ReplyFinished(provider.facts.id, chunk.stop_reason, chunk.usage, cost, "probe"))
                    return time.monotonic() - start
    except (AgentError, TimeoutError):
        return None
    return None
