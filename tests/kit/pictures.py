"""Pictures of screens: at which sizes, and when a screen is ready for one. `picture`, a fixture, compares them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable

import pytest
from textual.pilot import Pilot

from ebbtide.tui.app import EbbApp
from ebbtide.tui.terminal.terminal_driver import BackgroundColor
from ebbtide.tui.text.themes import BackgroundTone
from ebbtide.tui.widgets.prompt import PromptInput
from tests.kit.app_pilot import ScreenType, asks_on

SIZES = pytest.mark.parametrize(
    "picture", [(80, 24), (120, 40), (200, 60)], ids=["80x24", "120x40", "200x60"], indirect=True
)

WORN = pytest.mark.parametrize(
    ("theme", "ground"),
    [("light", None), ("high-contrast", None), ("ansi", None), ("ansi", "dark"), ("ansi", "light")],
    ids=["light", "high-contrast", "ansi", "ansi-dark", "ansi-light"],
)
"""Every theme but the dark one; the terminal's own colours also where it has told its ground."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Says whether a screen is what it was."""

    compare: Callable[..., bool]
    """What pytest-textual-snapshot gives to a test."""
    size: tuple[int, int]

    def __call__(
        self,
        app: EbbApp,
        *steps: str | Callable[[], bool],
        start: Callable[[], object] | None = None,
        size: tuple[int, int] | None = None,
        ground: BackgroundTone | None = None,
    ) -> bool:
        """Of an app in which nothing runs, after these keys; where a condition stands among them, it is waited for, and
        where one stands first, for nothing else. `start`: what is done before the steps. `ground`: what the terminal
        has told of its own."""

        async def look(pilot: Pilot[str]) -> None:
            if ground is not None:
                app.post_message(BackgroundColor(ground))
            if start is not None or not steps or isinstance(steps[0], str):
                await ready(app, lambda: not app.is_working)(pilot)
            done = start() if start is not None else None
            if isawaitable(done):
                await done
            for step in steps:
                await (pilot.press(step) if isinstance(step, str) else ready(app, step)(pilot))
            while app.context.presenter.schedule.is_due:
                await pilot.pause()
            await pilot.pause()

        return self.compare(app, terminal_size=size or self.size, run_before=look)


def ready(app: EbbApp, condition: Callable[[], bool]) -> Callable[[Pilot[str]], Awaitable[None]]:
    """Waits until the condition holds and what followed from it is drawn."""

    async def wait(pilot: Pilot[str]) -> None:
        while not (app.query(PromptInput) and condition()) or app.context.presenter.schedule.is_due:
            await pilot.pause()
        await pilot.pause()

    return wait


def asks(app: EbbApp, screen: ScreenType) -> Callable[[], bool]:
    """Whether such a screen takes keys, or a question of such a kind does."""
    return lambda: asks_on(app, screen)
