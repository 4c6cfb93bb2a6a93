"""What ends a headless run before its end: signals, and the time that it may take."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Literal, TypeAlias

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass

StopCause: TypeAlias = Literal["interrupted", "time_limit"]


@dataclass(slots=True)
class RunStopper:
    """The wish to end the run, from its beginning on: it reaches the opening of the session, then the session."""

    wish: Interrupt = field(default_factory=Interrupt)
    session: Session | None = None
    cause: StopCause = "interrupted"
    """Why, once it is requested."""

    def request(self, cause: StopCause = "interrupted") -> None:
        """The first cause is the one that counts."""
        if not self.wish.is_requested():
            self.cause = cause
        self.wish.request()
        if self.session is not None:
            self.session.interrupt()


@contextmanager
def interrupted_by_signals(request: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, a request to terminate and the end of the terminal request the end, so that it comes in order; a second
    one ends the process. A run that is to outlive its terminal (`nohup`) does."""
    loop = asyncio.get_running_loop()

    def interrupt(number: signal.Signals) -> None:
        request()
        loop.remove_signal_handler(number)

    handled = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    for number in handled:
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


@contextmanager
def stopped_after(stop: RunStopper, seconds: float | None) -> Iterator[None]:
    """The run is stopped when it has taken that long."""
    timer = asyncio.get_running_loop().call_later(seconds, stop.request, "time_limit") if seconds is not None else None
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
