"""Waiting for what other tasks do, where nothing tells of it."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool]) -> None:
    """Lets other tasks run until something holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what is waited for tells nobody
            await asyncio.sleep(0)
