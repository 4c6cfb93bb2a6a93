"""The provider's cache kept alive while the user thinks: what is sent, what is counted, and when nothing is."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.agent.events.session import Event, Noticed, ReplyFinished
from ebbtide.agent.events.view import CacheBroken, PrefixDrifted
from ebbtide.agent.messages import Usage
from ebbtide.agent.providers.base import ModelFacts, Provider
from ebbtide.agent.request.keep_alive import plan_renewal, renew_cache
from ebbtide.agent.session import Session
from ebbtide.agent.window.turn_limits import TurnLimits
from tests.kit.adapters import ADAPTERS, Adapter, endpoint_of
from tests.kit.fake_provider import Call, FakeProvider, Recorded, Turn
from tests.kit.session import Home, events_of

PRICES = Prices(5.0, 25.0, 0.5, 6.25)
ANTHROPIC, RESPONSES = (
    replace(one, facts=replace(one.facts, prices=PRICES, renews_cache=True, cache_ttl=ttl))
    for one, ttl in zip(ADAPTERS[:2], (300.0, 1800.0), strict=True)
)
FIRST = Turn(calls=(Call("read", {"path": "a.txt"}),), usage=Usage(input=10, cache_write=40_000, output=5))
ANSWER = Turn(text="done", usage=Usage(input=10, cache_read=40_000, cache_write=200, output=5))
RENEWAL = Turn(text="I", stop="max_tokens", usage=Usage(input=10, cache_read=40_200, output=1))
LATER = Turn(text="yes", usage=Usage(input=10, cache_read=40_200, cache_write=300, output=5))
THRICE = TurnLimits(max_keep_alive_requests=3)


class Pause:
    """A session whose user thinks, and a clock."""

    def __init__(self, home: Home, server: FakeProvider) -> None:
        self.now = 0.0
        self.events: list[Event] = []
        self._home, self._server = home, server

    async def begin(self, adapter: Adapter = ANTHROPIC, limits: TurnLimits = THRICE, **how: Any) -> Session:
        (self._home.root / "a.txt").write_text("one\n")
        self.provider = provider_at(adapter, self._server)
        self.session = await self._home.attended(self.provider, limits=limits, now=lambda: self.now, **how)
        await events_of(self.session)
        return self.session

    async def wait(self) -> float | None:
        """Seconds until the cache is to be used again."""
        return (await self.session.change_conversation(plan_renewal)).wait_seconds

    async def renew(self) -> float | None:
        """Uses it when it is time."""
        wait = await self.wait()
        self.now += wait or 0.0
        return (await self.session.change_conversation(renew_cache, self.events.append)).wait_seconds


def provider_at(adapter: Adapter, server: FakeProvider) -> Provider:
    return adapter.make(adapter.facts, Window(200_000, 2_000), endpoint_of(adapter, server.url), "http")


@pytest.mark.parametrize("adapter", [ANTHROPIC, RESPONSES], ids=lambda adapter: adapter.name)
async def test_the_last_request_is_sent_again_for_a_single_token(adapter: Adapter, home: Home) -> None:
    with FakeProvider([FIRST, ANSWER, RENEWAL, RENEWAL, LATER]) as server:
        pause = Pause(home, server)
        session = await pause.begin(adapter)
        history, cost = session.history, session.cost
        life = adapter.facts.cache_ttl
        assert await pause.wait() == pytest.approx(0.9 * life)
        assert [await pause.renew(), await pause.renew()] == [pytest.approx(0.9 * life)] * 2
        kept = PRICES.cost(RENEWAL.usage)
        assert pause.events == [ReplyFinished(adapter.facts.id, "max_tokens", RENEWAL.usage, kept, "keep-alive")] * 2
        assert session.history == history
        assert session.cost == pytest.approx((cost or 0.0) + 2 * kept)
        pause.now += 0.9 * life
        events = await events_of(session, "and now?")
        bodies = [request.body for request in server.requests]
        await pause.provider.close()
    name = "max_tokens" if adapter is ANTHROPIC else "max_output_tokens"
    least = 1 if adapter is ANTHROPIC else 16
    assert bodies[2] == bodies[3] == {**bodies[1], name: least}
    assert not [event for event in events if isinstance(event, PrefixDrifted | CacheBroken | Noticed)]
    stored = await home.thread.run(home.store.usage, session.id)
    assert [row.purpose for row in stored] == ["step", "step", "keep-alive", "keep-alive", "step"]
    assert "I" not in [message.text for message in session.history.messages]


def without_prices(facts: ModelFacts) -> ModelFacts:
    return replace(facts, prices=None)


def free(facts: ModelFacts) -> ModelFacts:
    return replace(facts, prices=Prices(0, 0, 0, 0))


def dear_to_read(facts: ModelFacts) -> ModelFacts:
    return replace(facts, prices=Prices(5.0, 25.0, 2.5, 5.0))


def thinks_by_budget(facts: ModelFacts) -> ModelFacts:
    return replace(facts, thinking="budget")


def promises_nothing(facts: ModelFacts) -> ModelFacts:
    return replace(facts, renews_cache=False)


@pytest.mark.parametrize("change", [without_prices, free, dear_to_read, thinks_by_budget, promises_nothing])
async def test_it_is_not_done_where_it_cannot_pay(change: Callable[[ModelFacts], ModelFacts], home: Home) -> None:
    with FakeProvider([FIRST, ANSWER]) as server:
        pause = Pause(home, server)
        await pause.begin(replace(ANTHROPIC, facts=change(ANTHROPIC.facts)))
        assert (await pause.wait(), await pause.renew(), pause.events) == (None, None, [])
        await pause.provider.close()


async def test_a_model_with_a_budget_is_asked_where_it_does_not_think(home: Home) -> None:
    with FakeProvider([FIRST, ANSWER]) as server:
        pause = Pause(home, server)
        facts = thinks_by_budget(ANTHROPIC.facts)
        await pause.begin(replace(ANTHROPIC, facts=facts), effort="none")
        assert await pause.wait() == pytest.approx(270.0)
        await pause.provider.close()


@pytest.mark.parametrize(
    ("limits", "times"),
    [
        (TurnLimits(), 0),
        (TurnLimits(max_keep_alive_requests=2), 2),
        (TurnLimits(max_cost=1.0, max_keep_alive_requests=1), 1),
        # The turn took 0.27 dollars; to keep its cache takes 0.02.
        (TurnLimits(max_cost=0.281, max_keep_alive_requests=3), 0),
        (TurnLimits(max_cost=0.3, max_keep_alive_requests=3), 1),
    ],
)
async def test_it_is_done_as_often_as_is_allowed_and_no_dearer(limits: TurnLimits, times: int, home: Home) -> None:
    with FakeProvider([FIRST, ANSWER, lambda _: RENEWAL]) as server:
        pause = Pause(home, server)
        await pause.begin(limits=limits)
        while await pause.wait() is not None:
            await pause.renew()
        assert (len(pause.events), len(server.requests)) == (times, 2 + times)
        await pause.provider.close()


async def test_each_answer_begins_a_new_count_and_nothing_else_does(home: Home) -> None:
    with FakeProvider([FIRST, ANSWER, RENEWAL, LATER, LATER]) as server:
        pause = Pause(home, server)
        session = await pause.begin(limits=TurnLimits(max_keep_alive_requests=1))
        assert (await pause.renew(), await pause.renew(), len(pause.events)) == (None, None, 1)
        await events_of(session, "and now?")
        assert await pause.wait() == pytest.approx(270.0)
        pause.now += 301.0
        assert await pause.wait() is None, "the cache is gone"
        await pause.provider.close()


async def test_a_view_that_was_rewritten_has_no_cache_to_keep(home: Home) -> None:
    with FakeProvider([FIRST, ANSWER]) as server:
        pause = Pause(home, server)
        session = await pause.begin()
        session._ctx.window.prefix_watch.allow_rewrite()  # without what leads to a rewrite
        assert await pause.wait() is None
        await pause.provider.close()


async def test_a_session_that_goes_on_keeps_nothing_before_its_first_request(home: Home) -> None:
    with FakeProvider([FIRST, ANSWER]) as server:
        pause = Pause(home, server)
        await pause.begin()
        await pause.session.close()
        pause.session = await home.attended(pause.provider, resume=True, limits=THRICE, now=lambda: pause.now)
        assert await pause.wait() is None
        await pause.provider.close()


@pytest.mark.parametrize(
    ("turn", "why"),
    [
        (Turn(status=529, error=("overloaded_error", "Overloaded")), "verloaded"),
        (replace(RENEWAL, usage=Usage(input=10, cache_write=40_200, output=1)), "it was empty"),
        (replace(RENEWAL, fault="cut"), "was cut off"),
    ],
    ids=["refused", "the cache was gone", "cut"],
)
async def test_a_failure_is_told_once_and_not_tried_again(turn: Turn, why: str, home: Home) -> None:
    with FakeProvider([FIRST, ANSWER, turn, LATER]) as server:
        pause = Pause(home, server)
        session = await pause.begin()
        assert await pause.renew() is None
        notices = [event.text for event in pause.events if isinstance(event, Noticed)]
        assert len(notices) == 1
        assert why in notices[0]
        await events_of(session, "and now?")
        assert (await pause.wait(), len(server.requests)) == (None, 4)
        await pause.provider.close()


async def test_it_waits_for_no_turn_and_no_question(home: Home) -> None:
    asks = Turn(calls=(Call("bash", {"command": "ls"}),), usage=FIRST.usage)
    with FakeProvider([asks, ANSWER]) as server:
        pause = Pause(home, server)
        (home.root / "a.txt").write_text("one\n")
        provider = provider_at(ANTHROPIC, server)
        session = await home.attended(provider, mode="ask", limits=THRICE)
        async for event in session.send("go"):
            if isinstance(event, PermissionAsked):
                with pytest.raises(AgentError, match="while a turn is running"):
                    await session.change_conversation(renew_cache, pause.events.append)
                session.answer(event.id, "no")
        assert pause.events == []
        await provider.close()


async def test_whoever_breaks_it_off_can_go_on_at_once(home: Home) -> None:
    arrived = threading.Event()

    def silent(_: Recorded) -> Turn:
        arrived.set()
        return replace(RENEWAL, fault="silent")

    with FakeProvider([FIRST, ANSWER, silent, LATER]) as server:
        pause = Pause(home, server)
        session = await pause.begin()
        before = session.history
        keeping = asyncio.create_task(session.change_conversation(renew_cache, pause.events.append))
        assert await asyncio.to_thread(arrived.wait, 10)
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await events_of(session, "and now?")
        assert server.wait_gone()
        assert session.history.messages[: len(before.messages)] == before.messages
        assert pause.events == []
        await pause.provider.close()
