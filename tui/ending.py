"""The end from outside: the terminal was closed, or somebody asks the program to end. It knows signals and no front
end."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_PATIENCE = 20
"""Seconds after which a program that was to end is ended, wherever it hangs."""

_HANDLED = (signal.SIGTERM, signal.SIGHUP)


class Ending:
    """Whether the program was told to end."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The first signal that said so."""

    @property
    def code(self) -> int:
        """The exit code that follows from it; 0 when it was not told to end."""
        return 0 if self.number is None else 128 + self.number


@contextmanager
def ended_by_signals(leave: Callable[[], object]) -> Iterator[Ending]:
    """Calls `leave`, once and in the event loop, when a signal says that the program is to end."""
    loop, ending = asyncio.get_running_loop(), Ending()

    def end(number: int, frame: FrameType | None) -> None:
        if ending.number is None:
            ending.number = number
            signal.alarm(_PATIENCE)
            loop.call_soon_threadsafe(leave)

    # Not the loop's own handlers: they wait while the loop waits for a terminal that takes nothing.
    before = [signal.signal(number, end) for number in _HANDLED]
    try:
        yield ending
    finally:
        for number, handler in zip(_HANDLED, before, strict=True):
            signal.signal(number, handler)
