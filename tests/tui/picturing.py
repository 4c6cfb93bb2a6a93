"""Pictures of screens: at which sizes, and when a screen is ready for one."""

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from tui.app import EbbApp
from tui.widgets.prompt import PromptInput

Compare = Callable[..., bool]
"""What pytest-textual-snapshot gives to a test."""

SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)], ids=["80x24", "120x40", "200x60"])

WORN = pytest.mark.parametrize(
    ("theme", "ground"),
    [("light", None), ("high-contrast", None), ("ansi", None), ("ansi", "dark"), ("ansi", "light")],
    ids=["light", "high-contrast", "ansi", "ansi-dark", "ansi-light"],
)
"""Every theme but the dark one; the terminal's own colours also where it has told its ground."""


def ready(app: EbbApp, condition: Callable[[], bool]) -> Callable[[Pilot[str]], Awaitable[None]]:
    """Waits until the condition holds and what followed from it is drawn."""

    async def wait(pilot: Pilot[str]) -> None:
        while not (app.query(PromptInput) and condition()) or app.context.showing.is_behind:
            await pilot.pause()
        await pilot.pause()

    return wait


def after(app: EbbApp, *steps: str | Callable[[], bool]) -> Callable[[Pilot[str]], Awaitable[None]]:
    """Presses keys, the first ones when nothing runs, and waits where a condition stands among them."""

    async def look(pilot: Pilot[str]) -> None:
        if isinstance(steps[0], str):
            await ready(app, lambda: not app.is_working)(pilot)
        for step in steps:
            await (pilot.press(step) if isinstance(step, str) else ready(app, step)(pilot))
        await pilot.pause()

    return look
