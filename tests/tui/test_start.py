"""The start: what is painted first stays."""

import asyncio
from typing import Any

import pytest

from ebbtide.agent.events.session import TextDelta, TurnFinished
from ebbtide.tui.app import EbbApp
from ebbtide.tui.widgets.prompt import PromptInput
from tests.kit.app_pilot import started
from tests.kit.fake_sessions import FakeSession, FakeSessions, conversation

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=str)


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Where the prompt was in each frame that was painted: the column and the line of its first letter."""
    places: list[tuple[int, int]] = []

    def record(app: EbbApp) -> None:
        if app.screen_stack and (prompt := next(iter(app.screen_stack[0].query(PromptInput)), None)) is not None:
            places.append(prompt.content_region.offset)

    monkeypatch.setattr(EbbApp, "post_display_hook", record)
    return places


@SIZES
@pytest.mark.parametrize(
    ("session", "options"),
    [
        (FakeSession(), {}),
        (FakeSession(), {"model": "scripted/demo"}),
        (FakeSession(history=conversation(3)), {"resume": "old"}),
    ],
    ids=["new", "with a model", "resumed"],
)
async def test_the_prompt_stays_where_it_is_painted_first(
    session: FakeSession, options: dict[str, Any], size: tuple[int, int], frames: list[tuple[int, int]]
) -> None:
    sessions = FakeSessions([session], may_open=asyncio.Event())
    async with started(sessions, size, **options) as t:
        await t.until(lambda: sessions.opened)
        assert sessions.may_open is not None
        sessions.may_open.set()
        await t.rests()
    assert len({*frames}) == 1


@SIZES
async def test_with_a_first_message_the_prompt_is_at_the_bottom_from_the_start(
    size: tuple[int, int], frames: list[tuple[int, int]]
) -> None:
    sessions = FakeSessions(
        [FakeSession([[TextDelta("Hello."), TurnFinished("answered", "")]])], may_open=asyncio.Event()
    )
    async with started(sessions, size, first_message="hi") as t:
        await t.until(lambda: sessions.opened)
        assert sessions.may_open is not None
        sessions.may_open.set()
        await t.shows("Hello.")
        await t.rests()
    assert len({*frames}) == 1
