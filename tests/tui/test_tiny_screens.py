"""Every screen where there is hardly any room: it can be left, what it is for can be done, and it is whole again once
there is room."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import TurnFinished
from tests.kit.app_pilot import Driven, terminal
from tests.kit.every_screen import SCREENS, closed, opened, stocked
from tests.kit.fake_sessions import FakeSession
from tests.kit.hostile_text import HOSTILE
from tests.kit.terminal_bytes import is_shown

ROOM = (80, 24)
TINY = [(10, 5), (10, 3), (1, 1), (80, 3)]
TEXT = "mend the parser"
ALIKE = 10
"""How often a screen has to be the same until nothing is waited for any more."""


def drawn(t: Driven) -> str:
    """What is on the screen. How long the bar beside the transcript is follows from what was looked at before: the
    height of everything else is an estimate."""
    lines = t.app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip(" ▁▂▃▄▅▆▇█") for line in lines)


async def drawn_at_rest(t: Driven) -> str:
    """The same, once it has been alike for a while: on a busy machine something may come late."""
    seen = [drawn(t)]
    while len(seen) < ALIKE:
        await t.pilot.pause()
        now = drawn(t)
        seen = [*seen, now] if now == seen[-1] else [now]
    return seen[-1]


async def sized(t: Driven, size: tuple[int, int]) -> None:
    await t.pilot.resize_terminal(*size)
    await t.until(lambda: tuple(t.app.screen.size) == size)
    await t.pilot.pause()


@asynccontextmanager
async def started(folder: Path, size: tuple[int, int], text: str = TEXT) -> AsyncIterator[Driven]:
    app = stocked(text, folder)
    async with app.run_test(size=size) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        yield t


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Each screen as it is where there has always been room."""

    async def look() -> dict[str, str]:
        async with started(tmp_path_factory.mktemp("fresh"), ROOM) as t:
            found = {"main": await drawn_at_rest(t)}
            for screen in SCREENS:
                await opened(t, screen)
                found[screen.name] = await drawn_at_rest(t)
                await closed(t)
            return found

    return asyncio.run(look())


@pytest.mark.parametrize("sizes", [TINY[:2], TINY[2:]], ids=str)
async def test_every_screen_is_whole_again_once_there_is_room(
    sizes: list[tuple[int, int]], fresh: dict[str, str], tmp_path: Path
) -> None:
    """It is opened where there is hardly any, used there, and made smaller once more."""
    async with started(tmp_path, sizes[0]) as t:
        await sized(t, ROOM)
        again = {"main": await drawn_at_rest(t)}
        for screen in SCREENS:
            await sized(t, sizes[0])
            await opened(t, screen)
            for size in (*sizes[1:], ROOM):
                await sized(t, size)
            again[screen.name] = await drawn_at_rest(t)
            await closed(t)
    assert {name: text for name, text in again.items() if text != fresh[name]} == {}


@pytest.mark.parametrize("size", [(1, 1), (300, 3)], ids=str)
async def test_keys_where_there_is_no_room_do_no_harm_whatever_is_shown(size: tuple[int, int], tmp_path: Path) -> None:
    async with started(tmp_path, size, HOSTILE) as t:
        for screen in SCREENS:
            await opened(t, screen)
            await t.pilot.press("down", "pagedown", "end", "up", "x")
            assert is_shown(drawn(t).replace("\n", "")), screen.name
            await closed(t)


@pytest.mark.parametrize("size", TINY, ids=str)
async def test_there_is_always_room_to_answer_and_to_write(size: tuple[int, int]) -> None:
    question = PermissionAsked("q1", "1", "bash", {"command": "pytest -x"}, "asks", "", ("bash(pytest)",))
    plan = PlanSubmitted("plan-1", "2", "# Mine", ("ask", "accept-edits"))
    words = QuestionAsked("q2", "Which?", ("red", "blue"))
    session = FakeSession([[question, plan, words, TurnFinished("answered", "x")]])
    async with terminal(session, size=size) as t:
        await t.pilot.press(*"hello")
        assert size == (1, 1) or "hello" in drawn(t)
        await t.press("enter", asks=PermissionAsked)
        await t.press("y", asks=PlanSubmitted)
        await t.press("2", asks=QuestionAsked)
        await t.press("down", "enter")
        await t.press(*"more", "enter")
        assert session.said == ["hello", "more"]
        assert session.answers == {
            "q1": Decision("allow"),
            "plan-1": PlanDecision("accept", "accept-edits"),
            "q2": "blue",
        }


@pytest.mark.parametrize("columns", [1, 2, 3])
async def test_an_empty_prompt_is_drawn_where_it_has_no_column(columns: int) -> None:
    async with terminal(FakeSession()) as t:
        whole = t.prompt.render_line(0).text.rstrip()
        await sized(t, (columns, 24))
        await sized(t, ROOM)
        assert t.prompt.render_line(0).text.rstrip() == whole == "Ask, or / for commands"
