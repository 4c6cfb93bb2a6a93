"""Runs blocking work in a thread that the program does not wait for when it exits.

`asyncio.to_thread` is for work that always ends soon: the program waits for its threads at the end, so that a server
that does not answer would delay Ctrl-C until its timeout.
"""

import asyncio
import atexit
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

EXIT_GRACE_S = 1.0
"""Seconds that work which has been started gets to finish when the program exits, so that its result is not lost."""


async def run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, or raise its error. If the caller is cancelled, `work` continues."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def set_result(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def set_error(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  # raised again where the result is awaited
            _call_in_loop(loop, set_error, error)
        else:
            _call_in_loop(loop, set_result, result)
        finally:
            atexit.unregister(wait_for_end)

    thread = threading.Thread(target=run, name="daemon-work", daemon=True)

    def wait_for_end() -> None:
        thread.join(EXIT_GRACE_S)

    atexit.register(wait_for_end)
    thread.start()
    return await future


def _call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], value: T) -> None:
    with suppress(RuntimeError):  # the loop is closed: the program is exiting, and nothing awaits the result
        loop.call_soon_threadsafe(function, value)
