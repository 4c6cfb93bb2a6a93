"""Programs of the desktop that are asked for a moment: the clipboard, a notification."""

import asyncio
import os
import signal
from contextlib import suppress

_MOMENT = 1.0
"""Seconds that a killed program gets to be gone."""


async def end_group(process: asyncio.subprocess.Process) -> None:
    """Ends a program that was started in a session of its own, and what it has started in its group: a script that is
    ended alone leaves its child holding the pipe, and whoever waits for the program waits for its pipes. What holds
    them from elsewhere is not waited for."""
    with suppress(ProcessLookupError):  # all of it has ended
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_MOMENT):
            while process.stdout is not None and await process.stdout.read(1 << 16):
                pass  # a pipe of which nobody reads never ends
            await process.wait()
