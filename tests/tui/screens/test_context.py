"""The context screen, driven by its keys on a real session: real tools, a real database, a scripted model."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ebbtide.agent.compaction.style_costs import StyleCosts
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import PermissionAsked
from ebbtide.agent.messages import User
from ebbtide.agent.window.overview import Overview
from ebbtide.tui.app import EbbApp
from ebbtide.tui.screens.context import CONFIRM_KEY_HINTS, ContextScreen
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.question_panel import QuestionPanel
from tests.kit.app_pilot import Driven, list_on, terminal
from tests.kit.fake_sessions import FakeSession, FakeSessions
from tests.kit.user_settings import Setup
from tests.tui.test_real_session import Reply, calls, working

LONG = "".join(f"{number} row of a long file\n" for number in range(400))


def prepared(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    for name in "ab":
        (project / f"{name}.txt").write_text(LONG)
    return tmp_path


async def looking(t: Driven) -> ContextScreen:
    await t.press("ctrl+x", until=lambda: isinstance(t.app.screen, ContextScreen) and t.app.screen.is_mounted)
    screen = t.app.screen
    assert isinstance(screen, ContextScreen)
    await t.pilot.pause()
    return screen


@asynccontextmanager
async def looking_at(folder: Path, *names: str) -> AsyncIterator[tuple[Driven, ContextScreen]]:
    """The context of a session that has read these files."""
    reads: list[Reply] = [calls("read", path=name) for name in names]
    async with working(prepared(folder), *reads, {"text": "I have read them."}) as t:
        await t.says("read them", shows="I have read them.")
        yield t, await looking(t)


def mark(screen: ContextScreen, key: str) -> None:
    place = next(at for at, row in enumerate(screen._rows) if row.key == key)
    listing = screen.query_one(Listing)
    listing.move_mark(place - listing.marked_index)


async def pressed(t: Driven, screen: ContextScreen, *keys: str) -> None:
    await t.press(*keys, until=lambda: screen.is_settled)
    await t.pilot.pause()


def says(screen: ContextScreen, id: str = "told") -> str:
    return str(screen.query_one(f"#{id}").render())


def output(t: Driven, number: int) -> str:
    session = t.session
    outputs = [o for m in session.history.messages if isinstance(m, User) for o in m.outputs]
    masked = outputs[number - 1].call_id in session.history.masked
    return "masked" if masked else outputs[number - 1].text


async def test_an_output_is_evicted_for_a_price_and_comes_back_with_undo(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt", "b.txt") as (t, screen):
        mark(screen, "r1")
        before = screen._components.overview.used_tokens

        await pressed(t, screen, "e")
        assert says(screen).startswith("remove r1 from context: frees ")
        assert screen.query_one(KeyLine).text == CONFIRM_KEY_HINTS
        await pressed(t, screen, "escape")
        assert (says(screen), output(t, 1) == "masked") == ("", False)
        await pressed(t, screen, "e")
        await pressed(t, screen, "enter")
        assert says(screen).startswith("`r1` was removed from context; one line remains (")
        assert output(t, 1) == "masked"
        assert screen._components.overview.used_tokens < before - 1_500
        assert screen._marked_row is not None
        assert (screen._marked_row.key, screen._marked_row.state) == ("r1", "one line")

        await pressed(t, screen, "u")
        assert says(screen).startswith("undo the last context change: adds ")
        await pressed(t, screen, "enter")
        assert says(screen).startswith("undone: ")
        assert output(t, 1) != "masked"
        await t.press("escape", until=lambda: not isinstance(t.app.screen, ContextScreen))
        assert isinstance(t.app.controller.view.blocks[-2], Notice)


async def test_what_is_pinned_says_so_and_is_not_evicted(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt") as (t, screen):
        mark(screen, "r1")
        await pressed(t, screen, "p", "left", "right")
        assert says(screen) == "pin r1: costs nothing, no sent request changes"
        await pressed(t, screen, "enter")
        assert screen._marked_row is not None
        assert screen._marked_row.is_pinned
        await pressed(t, screen, "e")
        assert says(screen) == "`r1` is pinned: unpin it first"
        await pressed(t, screen, "p")
        await pressed(t, screen, "enter")
        assert "no longer pinned" in says(screen)
        session = t.session
        assert session.history.pinned == frozenset()
        await pressed(t, screen, "d")
        assert says(screen).startswith("remove r1 from context: frees ")
        await pressed(t, screen, "b")
        assert "`r1` is already in context" in says(screen)


async def test_enter_does_nothing_that_is_not_on_the_screen_any_more(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt") as (t, screen):
        session = t.session
        before = session.history
        for offer, key in (("o", "b"), ("p", "b"), ("p", "t"), ("o", "up"), ("o", "home"), ("p", "x"), ("p", "/")):
            mark(screen, "r1")
            await pressed(t, screen, offer)
            assert screen.query_one(KeyLine).text == CONFIRM_KEY_HINTS
            await pressed(t, screen, key)
            assert screen.query_one(KeyLine).text != CONFIRM_KEY_HINTS
            assert "r1: " not in says(screen)
            await pressed(t, screen, "enter")
            assert session.history == before
            if screen._is_open:
                await pressed(t, screen, "escape")


async def test_bringing_back_says_what_it_takes_and_where_it_stands_then(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt") as (t, screen):
        mark(screen, "r1")
        await pressed(t, screen, "o")
        await pressed(t, screen, "enter")
        session = t.session
        before, used = session.history, screen._components.overview.used_tokens

        await pressed(t, screen, "b")
        assert says(screen).startswith("put r1 at the end of the conversation: adds ")
        assert says(screen).endswith(" tokens, costs nothing now")
        assert (screen.query_one(KeyLine).text, session.history) == (CONFIRM_KEY_HINTS, before)
        await pressed(t, screen, "escape")
        assert (says(screen), session.history) == ("", before)
        await pressed(t, screen, "b")
        await pressed(t, screen, "enter")
        assert says(screen).startswith("`r1` is back in context, at the end of the conversation (")
        assert len(session.history.messages) == len(before.messages) + 1
        assert screen._components.overview.used_tokens > used + 1_500
        assert screen._marked_row is not None
        assert (screen._marked_row.key, screen._marked_row.state) == ("r1", "preview")


async def test_the_list_is_sorted_filtered_and_opened(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt", "b.txt") as (t, screen):
        assert screen._rows[0].name == "system prompt"
        await pressed(t, screen, "t")
        assert screen._rows[0].name == "outputs"
        await pressed(t, screen, "/", "b", ".", "t", "x", "t")
        assert [row.name for row in screen._rows] == ["outputs", "r2  Viewed b.txt – 400 lines"]
        await pressed(t, screen, "enter", "down", "enter")
        await t.until(lambda: "1 0 row of a long file" in says(screen, "content"))
        assert says(screen, "what").startswith("r2  lines 1-")
        await pressed(t, screen, "e", "pagedown")
        await t.until(lambda: "lines 1-" not in says(screen, "what"))
        assert output(t, 2) != "masked"
        await pressed(t, screen, "escape", "escape")
        assert len(screen._rows) > 3
        await pressed(t, screen, "home", "enter")
        assert "no content to open" in says(screen)


async def test_the_keys_walk_the_requests(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt", "b.txt") as (t, screen):
        assert "request 3: " in says(screen, "requests")
        await pressed(t, screen, "left", "left", "left")
        assert "request 1: " in says(screen, "requests")
        mark(screen, "r1")
        await pressed(t, screen, "e")
        await pressed(t, screen, "enter")
        await pressed(t, screen, "right", "right", "right")
        assert "before it: remove r1 from context (by hand)" in says(screen, "requests")


async def test_while_a_turn_runs_acts_say_that_they_have_to_wait(tmp_path: Path) -> None:
    slow = calls("bash", command="echo started; env sleep 600")
    async with working(prepared(tmp_path), calls("read", path="a.txt"), {"text": "one"}, slow, {"text": "end"}) as t:
        await t.says("read it", shows="one")
        await t.type("go on", asks=PermissionAsked)
        await t.press("y", shows="│ started")
        screen = await looking(t)
        mark(screen, "r1")
        await pressed(t, screen, "e")
        assert "while a turn is running" in says(screen)
        assert output(t, 1) != "masked"
        await t.press("escape", until=lambda: not isinstance(t.app.screen, ContextScreen))
        await t.press("escape")


async def test_acts_are_commands_too(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt") as (t, _):
        await t.press("escape")
        for written, message in (
            ("/context pin r1", "r1 is pinned: it stays in context"),
            ("/context drop r1", "r1 is pinned: unpin it first"),
            ("/context unpin r1", "r1 is no longer pinned"),
            ("/context drop r1", "r1 was removed from context; one line remains"),
            ("/context frob r1", "/context frob r1 is not valid"),
            ("/context pin", "is not valid"),
        ):
            await t.type(written, shows=message)
        await t.type("/context undo", asks=QuestionPanel)
        await t.press("enter", shows="undone: ")
        await t.type("/context undo", shows="nothing to undo")


async def test_the_style_is_changed_by_key_and_by_command_in_the_open_session(tmp_path: Path) -> None:
    setup = Setup(tmp_path)
    session = FakeSession()
    app = EbbApp(FakeSessions([session]), guard_s=0.0, settings=lambda: setup.settings)
    async with app.run_test(size=(100, 40)) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        screen = await looking(t)
        await t.until(lambda: "balanced" in says(screen, "what-it-is"))
        assert [line[:11].strip() for line in says(screen, "what-it-is").splitlines()[4:8]] == [
            "Style",
            "frugal",
            "\u25cf balanced",
            "careful",
        ]
        await pressed(t, screen, "c")
        assert says(screen) == "`context.style` is now careful"
        assert "\u25cf careful" in says(screen, "what-it-is")
        assert (session.style, setup.written) == ("careful", '[context]\nstyle = "careful"\n')
        await pressed(t, screen, "c")
        assert (session.style, setup.written) == ("frugal", '[context]\nstyle = "frugal"\n')
        await t.press("escape", until=lambda: not isinstance(t.app.screen, ContextScreen))
        await t.type("/context style loose", shows="the styles are frugal, balanced, careful")
        await t.type("/context style balanced", until=lambda: session.style == "balanced")
        await t.type("/settings", lists="settings")
        await t.press(*"context.style", "enter", until=lambda: list_on(t.app, "values"))
        await t.press("down", "enter", until=lambda: session.style == "careful")


async def test_while_the_styles_are_counted_the_screen_says_so_and_can_be_used() -> None:
    sessions = SlowSessions([FakeSession()])
    app = EbbApp(sessions, guard_s=0.0)
    async with app.run_test(size=(100, 40)) as pilot:
        t = Driven(app, pilot)
        await t.rests()
        screen = await looking(t)
        assert "Style  counting" in says(screen, "what-it-is")
        assert not screen.is_settled
        await pilot.press("t")
        assert says(screen) == "sorted by size"
        await pilot.press("c")
        assert says(screen) == "the styles are still being counted"
        sessions.counted.set()
        await t.until(lambda: screen.is_settled)
        assert "~$1.97" in says(screen, "what-it-is")
        await pilot.press("c")
        assert says(screen) == "settings cannot be changed here"
        await t.press("escape", until=lambda: not isinstance(t.app.screen, ContextScreen))


class SlowSessions(FakeSessions):
    """Sessions that count the styles only when a test lets them."""

    def __init__(self, sessions: list[FakeSession | AgentError]) -> None:
        super().__init__(sessions)
        self.counted = asyncio.Event()

    async def style_costs(self, overview: Overview) -> StyleCosts:
        await self.counted.wait()
        return await super().style_costs(overview)


async def test_a_real_session_is_counted(tmp_path: Path) -> None:
    async with looking_at(tmp_path, "a.txt", "b.txt") as (t, screen):
        await t.until(lambda: screen.is_settled)
        (line,) = [line for line in says(screen, "what-it-is").splitlines() if line.startswith("Style")]
        assert "\u25cf balanced" in line
        assert line.count(" tokens, 0") == 3


@pytest.mark.parametrize("size", [(10, 5), (20, 3), (10, 40), (200, 8), (40, 16)])
async def test_it_fits_any_terminal(size: tuple[int, int]) -> None:
    async with terminal(FakeSession(), size=size) as t:
        screen = await looking(t)
        await pressed(t, screen, "down", "t", "left", "/", "x", "escape", "end", "pageup", "pagedown", "enter")
        await t.pilot.resize_terminal(80, 24)
        await t.pilot.pause()
        await t.press("escape", until=lambda: not isinstance(t.app.screen, ContextScreen))
