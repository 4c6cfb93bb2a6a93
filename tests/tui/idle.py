"""When an app that a test drives is idle: found within a frame of 4 ms."""

import asyncio

import textual.app
import textual.pilot
import textual.screen

FRAME = 1 / 250
"""Seconds. Of an app on a terminal it is a 60th: a screen is drawn so often at most."""


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
