"""Stops a headless run early, after a signal or at its time limit."""

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
    """Stops the run on request: interrupts the session, or cancels opening it."""

    interrupt: Interrupt = field(default_factory=Interrupt)
    session: Session | None = None
    cause: StopCause = "interrupted"
    """The reason for the stop; valid once a stop is requested."""

    def request_stop(self, cause: StopCause = "interrupted") -> None:
        """Request the stop. Only the cause of the first request is recorded."""
        if not self.interrupt.is_requested():
            self.cause = cause
        self.interrupt.request()
        if self.session is not None:
            self.session.interrupt()


@contextmanager
def stop_on_signals(request_stop: Callable[[], None]) -> Iterator[None]:
    """Request an orderly stop on Ctrl-C, SIGTERM or SIGHUP; a second signal of the same kind ends the process. SIGHUP
    is ignored if the process was started with `nohup`."""
    loop = asyncio.get_running_loop()

    def handle_signal(signal_number: signal.Signals) -> None:
        request_stop()
        loop.remove_signal_handler(signal_number)

    handled_signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handled_signals.append(signal.SIGHUP)
    for signal_number in handled_signals:
        loop.add_signal_handler(signal_number, handle_signal, signal_number)
    try:
        yield
    finally:
        for signal_number in handled_signals:
            loop.remove_signal_handler(signal_number)


@contextmanager
def stop_after(stopper: RunStopper, seconds: float | None) -> Iterator[None]:
    """Stop the run after `seconds`."""
    timer = (
        asyncio.get_running_loop().call_later(seconds, stopper.request_stop, "time_limit")
        if seconds is not None
        else None
    )
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
