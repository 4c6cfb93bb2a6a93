"""Driving the app in tests: wait for what should come, never for a while."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import textual.app
import textual.pilot
import textual.screen
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from ebbtide.agent.errors import AgentError
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.agent.session import Session
from ebbtide.tui.app import EbbApp
from ebbtide.tui.screens.panel import PanelScreen
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.question_panel import QuestionPanel
from ebbtide.tui.widgets.transcript import TranscriptView
from tests.kit.fake_sessions import FakeLibrary, FakeSession, FakeSessions

ScreenType: TypeAlias = type[Any]
"""A screen, or what a question is about."""

FRAME = 1 / 250
"""Seconds. Of an app on a terminal it is a 60th: a screen is drawn so often at most."""
PATIENCE = 20
"""Seconds after which a test that waits has failed."""


def list_on(app: App[Any], name: str) -> bool:
    """Whether the list of a command is on the screen, with all that was asked for."""
    screen = app.screen
    return isinstance(screen, PanelScreen) and screen.panel.name == name and screen.is_mounted and screen.is_settled


def asks_on(app: App[Any], kind: ScreenType) -> bool:
    """Whether such a screen takes keys, or a question of such a kind does: `QuestionPanel` for any of them."""
    screen = app.screen
    if issubclass(kind, Screen):
        return isinstance(screen, kind) and screen.is_mounted
    asked = next(iter(screen.query(QuestionPanel)), None)
    is_it = asked is not None and (kind is QuestionPanel or isinstance(asked.spec.source, kind))
    return is_it and asked is not None and asked.has_focus_within and not asked.is_answered


@dataclass
class Driven:
    """An app with hands on its keys."""

    app: EbbApp
    pilot: Pilot[str]

    @property
    def transcript(self) -> TranscriptView:
        return self.app.screen_stack[0].query_one(TranscriptView)

    @property
    def prompt(self) -> PromptInput:
        return self.app.screen_stack[0].query_one(PromptInput)

    @property
    def session(self) -> Session:
        """The one that is shown."""
        assert self.app.controller.session is not None
        return self.app.controller.session

    def reads(self, id: str) -> str:
        """What stands in a part of the screen."""
        return str(self.app.screen.query_one(f"#{id}").render())

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.pilot.pause()

    async def asks(self, screen: ScreenType) -> None:
        """Waits for a screen that takes keys, or for a question of such a kind: keys from before it was mounted are
        not meant for it."""
        await self.until(lambda: asks_on(self.app, screen))

    @property
    def asked(self) -> QuestionPanel:
        """The question that is on the screen."""
        return self.app.screen.query_one(QuestionPanel)

    async def lists(self, name: str) -> PanelScreen:
        """Waits for the list of a command with all that is to be seen on it."""
        await self.until(lambda: list_on(self.app, name))
        screen = self.app.screen
        assert isinstance(screen, PanelScreen)
        return screen

    async def press(
        self,
        *keys: str,
        until: Callable[[], object] | None = None,
        shows: str = "",
        lists: str = "",
        asks: ScreenType | None = None,
    ) -> None:
        """Presses keys, and waits for what is named, or else until nothing runs."""
        await self.pilot.press(*keys)
        await self._comes(until, shows, lists, asks)

    async def type(
        self,
        text: str,
        until: Callable[[], object] = lambda: True,
        shows: str = "",
        lists: str = "",
        asks: ScreenType | None = None,
    ) -> None:
        """Types a message and sends it, and waits for what is named."""
        self.prompt.set_text(text)
        await self.press("enter", until=until, shows=shows, lists=lists, asks=asks)

    async def says(self, text: str, shows: str = "") -> None:
        """Types a message, sends it, and waits until nothing runs and the transcript shows what is named."""
        await self.type(text, shows=shows)
        await self.rests()

    async def opens(self, command: str, name: str = "") -> PanelScreen:
        """Types a command, and waits for its list, which may have another name."""
        await self.type(command)
        return await self.lists(name or command.split()[0][1:])

    async def _comes(self, until: Callable[[], object] | None, shows: str, lists: str, asks: ScreenType | None) -> None:
        if shows:
            await self.shows(shows)
        elif lists:
            await self.lists(lists)
        elif asks is not None:
            await self.asks(asks)
        elif until is not None:
            await self.until(until)
        else:
            await self.rests()

    async def shows(self, text: str) -> None:
        """Waits until the transcript shows a text."""
        try:
            await self.until(lambda: text in self.transcript.visible_text())
        except TimeoutError:
            raise AssertionError(f"{text!r} does not appear in:\n{self.transcript.visible_text()}") from None

    async def rests(self) -> None:
        """Waits until nothing runs and everything is drawn."""
        await self.until(lambda: not self.app.is_working)


@dataclass
class Terminal(Driven):
    sessions: FakeSessions

    @property
    def library(self) -> FakeLibrary:
        assert self.sessions.listing is not None
        return self.sessions.listing


@asynccontextmanager
async def started(sessions: FakeSessions, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Terminal]:
    """An app that opens these sessions, as soon as it runs. `options`: its own."""
    app = EbbApp(sessions, **{"guard_s": 0.0, **options})
    async with app.run_test(size=size) as pilot:
        yield Terminal(app, pilot, sessions)


@asynccontextmanager
async def terminal(
    *sessions: FakeSession | AgentError,
    infos: Sequence[SessionInfo] = (),
    size: tuple[int, int] = (80, 24),
    **options: Any,
) -> AsyncIterator[Terminal]:
    """One whose first session is open; where there is a first message, that may not have been said yet."""
    async with started(FakeSessions(list(sessions), tuple(infos)), size, **options) as t:
        if "first_message" not in options:
            await t.rests()
        yield t


async def until_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Returns when a frame has passed behind which nothing is left to do but to wait. Textual's own way is to measure
    how much the process has worked in 20 ms, twice for every key that a test presses."""
    loop = asyncio.get_running_loop()
    end = loop.time() + max_sleep
    while loop.time() < end:
        await asyncio.sleep(FRAME * 1.25)
        if not loop._ready:  # type: ignore[attr-defined]  # nothing else tells of work that is due
            return


def find_idle_soon() -> None:
    """Lets every pilot of this process wait so, and screens be drawn as often."""
    textual.screen.UPDATE_PERIOD = FRAME  # type: ignore[misc]  # that of the app is for eyes
    textual.app.wait_for_idle = until_idle  # type: ignore[attr-defined]  # where keys are pressed
    textual.pilot.wait_for_idle = until_idle  # type: ignore[attr-defined]  # where a test pauses
