"""What ends a headless run before its end: signals."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from agent.channel import Interrupt
from agent.session import Session
from tools.lazy import dataclass


@dataclass(slots=True)
class RunStopper:
    """The wish to end the run, from its beginning on: it reaches the opening of the session, then the session."""

    wish: Interrupt = field(default_factory=Interrupt)
    session: Session | None = None

    def request(self) -> None:
        self.wish.request()
        if self.session is not None:
            self.session.interrupt()


@contextmanager
def interrupted_by_signals(stop: RunStopper) -> Iterator[None]:
    """Ctrl-C, a request to terminate and the end of the terminal interrupt the run, so that it ends in order; a second
    one ends the process. A run that is to outlive its terminal (`nohup`) does."""
    loop = asyncio.get_running_loop()

    def interrupt(number: signal.Signals) -> None:
        stop.request()
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
