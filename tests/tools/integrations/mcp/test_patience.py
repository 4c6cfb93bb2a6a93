"""How long calls may take, with a clock that the test winds."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from ebbtide.tools.integrations.mcp.connection import ServerTimeouts


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time can be put forward."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew


async def passes(seconds: float) -> None:
    """Lets the time go by, and everything happen that is due then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    loop.skew += seconds
    for _ in range(5):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(scenario())


async def out_of_time() -> None:
    async with ServerTimeouts(60).limit_call():
        await passes(61)


async def out_of_time_with_progress() -> None:
    async with ServerTimeouts(60).limit_call() as go_on:
        for _ in range(100):
            await passes(50)
            go_on()


async def out_of_time_after_a_question() -> None:
    patience = ServerTimeouts(60)
    async with patience.limit_call():
        with patience.paused():
            await passes(1000)
        await passes(61)


@pytest.mark.parametrize("scenario", [out_of_time, out_of_time_with_progress, out_of_time_after_a_question])
def test_a_call_ends_that_gives_no_sign(scenario: Callable[[], Coroutine[None, None, None]]) -> None:
    with pytest.raises(TimeoutError):
        run(scenario)


async def progress() -> None:
    async with ServerTimeouts(60).limit_call() as go_on:
        for _ in range(10):
            await passes(50)
            go_on()


async def a_question() -> None:
    patience = ServerTimeouts(60)
    async with patience.limit_call():
        await passes(50)
        with patience.paused():
            await passes(1000)
        await passes(50)


async def a_call_that_begins_during_a_question() -> None:
    patience = ServerTimeouts(60)
    with patience.paused():
        async with patience.limit_call():
            await passes(1000)


@pytest.mark.parametrize("scenario", [progress, a_question, a_call_that_begins_during_a_question])
def test_a_call_goes_on_while_it_makes_progress_or_waits_for_us(
    scenario: Callable[[], Coroutine[None, None, None]],
) -> None:
    run(scenario)
