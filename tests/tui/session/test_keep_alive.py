"""The provider's cache kept alive beside the jobs of a terminal: while none runs, and no longer."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Usage
from ebbtide.agent.window.turn_limits import TurnLimits
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.job_queue import JobQueue
from ebbtide.tui.session.keep_alive import CacheKeepAlive
from ebbtide.tui.slash_commands import Invocation
from tests.kit.adapters import ADAPTERS, endpoint_of
from tests.kit.fake_provider import FakeProvider, Recorded, Turn
from tests.kit.fake_sessions import FakeSessions
from tests.kit.session import Home

ADAPTER = replace(ADAPTERS[0], facts=replace(ADAPTERS[0].facts, prices=Prices(5.0, 25.0, 0.5, 6.25), renews_cache=True))
FIRST = Turn(text="done", usage=Usage(input=10, cache_write=40_000, output=5))
RENEWAL = Turn(text="I", stop="max_tokens", usage=Usage(input=10, cache_read=40_000, output=1))
LATER = Turn(text="yes", usage=Usage(input=10, cache_read=40_000, cache_write=300, output=5))


class Jobs(JobQueue):
    """Jobs without anything to show them on, and a user who thinks for as long as the test says."""

    def __init__(self, controller: SessionController) -> None:
        super().__init__()
        self._controller = controller
        self.now, self.asleep = 0.0, 0.0
        self.waits: list[float] = []
        self.thinks = 0
        """How many waits are over at once; the next one lasts until something is to be done."""
        self._keep_alive = CacheKeepAlive(lambda: controller, self.sleep, lambda: self.now + self.asleep)
        self.jobs: list[asyncio.Task[None]] = []
        self.waiting = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.thinks -= 1
        if self.thinks < 0:
            self.waiting.set()
            await asyncio.Event().wait()
        self.now += seconds

    @property
    def controller(self) -> SessionController:
        return self._controller

    def run_job(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        self.jobs.append(asyncio.create_task(work))
        return self.jobs[-1]

    run_in_background = run_job

    async def run_invocation(self, invocation: Invocation) -> None: ...

    async def open_session(self) -> bool:
        return True

    def on_message_queued(self, *, later: bool) -> None: ...

    def return_queue_to_prompt(self) -> None: ...

    def restore_to_prompt(self, written: str) -> None: ...

    async def say(self, text: str, thinks: int = 0) -> None:
        """Says it, to its end, and then thinks."""
        self.thinks = thinks
        self.waiting.clear()
        self.send(text)
        await self.jobs[-1]


class Place:
    """A session of such jobs at a server."""

    def __init__(self, home: Home) -> None:
        self.home = home

    async def jobs(self, server: FakeProvider, times: int = 3) -> Jobs:
        self.provider = ADAPTER.make(ADAPTER.facts, Window(200_000, 2_000), endpoint_of(ADAPTER, server.url), "http")
        controller = SessionController(FakeSessions(), lambda: None)
        jobs = Jobs(controller)
        limits = TurnLimits(max_keep_alive_requests=times)
        await controller.switch_to_open_session(
            await self.home.attended(self.provider, limits=limits, now=lambda: jobs.now)
        )
        return jobs


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with Home(tmp_path) as home:
        made = Place(home)
        yield made
        await made.provider.close()


def asked(server: FakeProvider) -> list[int]:
    """How many tokens each request lets the model say."""
    return [request.body["max_tokens"] for request in server.requests]


async def test_the_cache_is_kept_alive_until_the_user_speaks_again(place: Place) -> None:
    with FakeProvider([FIRST, RENEWAL, RENEWAL, LATER]) as server:
        jobs = await place.jobs(server)
        await jobs.say("go", thinks=2)
        await jobs.waiting.wait()
        assert jobs.waits == pytest.approx([270.0] * 3)
        assert jobs.controller.view.keep_alive_count == 2
        assert jobs.controller.view.keep_alive_cost == pytest.approx(2 * 0.020_075)
        await jobs.say("and now?")
        assert asked(server) == [2_000, 1, 1, 2_000]
        assert jobs.controller.view.keep_alive_count == 0
        await jobs.close_session("")


async def test_nothing_is_done_where_it_is_not_wanted(place: Place) -> None:
    with FakeProvider([FIRST]) as server:
        jobs = await place.jobs(server, times=0)
        await jobs.say("go")
        await jobs.close_session("")
        assert (jobs.waits, asked(server)) == ([], [2_000])


async def test_a_machine_that_slept_meanwhile_sends_nothing(place: Place) -> None:
    with FakeProvider([FIRST, LATER]) as server:
        jobs = await place.jobs(server)
        sleep = jobs.sleep

        async def sleeps(seconds: float) -> None:
            await sleep(seconds)
            jobs.asleep += 7_200.0
            woken.set()

        woken = asyncio.Event()
        jobs._keep_alive = CacheKeepAlive(lambda: jobs.controller, sleeps, lambda: jobs.now + jobs.asleep)
        await jobs.say("go", thinks=1)
        await woken.wait()
        await jobs.say("and now?")
        await jobs.close_session("")
        assert asked(server) == [2_000, 2_000]


@pytest.mark.parametrize("leaves", [False, True], ids=["speaks", "leaves"])
async def test_a_request_under_way_is_broken_off_when_the_user(leaves: bool, place: Place) -> None:
    arrived = threading.Event()

    def silent(_: Recorded) -> Turn:
        arrived.set()
        return replace(RENEWAL, fault="silent")

    with FakeProvider([FIRST, silent, LATER]) as server:
        jobs = await place.jobs(server)
        await jobs.say("go", thinks=1)
        assert await asyncio.to_thread(arrived.wait, 10)
        if not leaves:
            await jobs.say("and now?")
        await jobs.close_session("")
        assert server.wait_gone()
        assert asked(server) == [2_000, 1, *([] if leaves else [2_000])]
        assert jobs.controller.view.keep_alive_count == 0


async def test_what_is_changed_by_hand_takes_the_cache_as_it_finds_it(place: Place) -> None:
    """A job that rewrites the view leaves nothing that is worth keeping, and none begins while another one runs."""
    with FakeProvider([FIRST]) as server:
        jobs = await place.jobs(server)
        await jobs.say("go")
        await jobs.waiting.wait()
        session = jobs.controller.session
        assert session is not None
        session._ctx.window.prefix_watch.allow_rewrite()
        jobs.start()
        await jobs.jobs[-1]
        await jobs.close_session("")
        assert (len(jobs.waits), asked(server)) == (1, [2_000])


async def test_a_session_that_cannot_be_changed_is_left_alone(place: Place) -> None:
    def refuses(*_: object) -> Callable[[], None]:
        raise AgentError("the disk is full")

    with FakeProvider([FIRST]) as server:
        jobs = await place.jobs(server)
        session = jobs.controller.session
        assert session is not None
        await jobs.say("go")
        await jobs.waiting.wait()
        session.change_conversation = refuses  # type: ignore[method-assign,assignment]  # a store that fails
        jobs.start()
        await jobs.jobs[-1]
        await jobs.close_session("")
        assert asked(server) == [2_000]
