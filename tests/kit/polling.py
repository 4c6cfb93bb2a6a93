"""Waiting for what other tasks and processes do, where nothing tells of it."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path


async def until(condition: Callable[[], bool]) -> None:
    """Lets other tasks run until something holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # what is waited for tells nobody
            await asyncio.sleep(0)


async def soon(condition: Callable[[], bool]) -> None:
    """The same of what another process does."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # nothing tells of another process
            await asyncio.sleep(0.01)


def is_alive(process: int) -> bool:
    """Whether it runs, and is no zombie that nobody has buried yet."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def is_gone(process: int) -> bool:
    """Whether it ends, now or soon."""
    end = time.monotonic() + 20
    while is_alive(process) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(process)


def is_there(process: int) -> bool:
    """Whether there is such a process, be it a zombie."""
    return Path(f"/proc/{process}").exists()
