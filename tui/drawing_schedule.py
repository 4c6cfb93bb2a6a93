"""Decides when an app draws: streamed text a few times per second, and after typed keys have been handled."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from textual.app import App

FLUSH_INTERVAL_S = 1 / 12
"""Minimum seconds between updates of streamed text."""

KEY_CHECK_INTERVAL_S, MAX_KEY_WAIT_S = 0.002, 0.1
"""Seconds between checks whether typed keys have been handled, and how long a drawing waits for them at most."""


def next_drawing_time(start_time: float, end_time: float) -> float:
    """Calculate when to draw next, after a drawing that lasted from `start_time` to `end_time`. At least half of the
    time is left for keys and for idle work such as a resize."""
    return max(start_time + FLUSH_INTERVAL_S, end_time + (end_time - start_time))


class DrawingSchedule:
    """Calls `draw`, but only a few times per second."""

    def __init__(self, app: App[Any], draw: Callable[[], None]) -> None:
        self._app = app
        self._draw = draw
        self._earliest_time = 0.0
        """Earliest time at which streamed text may be drawn again."""
        self._timer: asyncio.TimerHandle | None = None
        """Timer for the next drawing."""
        self._is_stopped = False

    @property
    def is_running(self) -> bool:
        """Whether there are widgets to draw in. They are removed during shutdown."""
        return self._app.is_running and not self._is_stopped

    @property
    def is_due(self) -> bool:
        """Whether a drawing is scheduled because the screen is out of date."""
        return self._timer is not None

    def stop(self) -> None:
        """Draw no more, because the widgets are about to be removed."""
        self._is_stopped = True

    def request(self) -> None:
        """Schedule a drawing, unless one is."""
        if self._timer is None and self.is_running:
            now = monotonic()
            wait = max(0.0, self._earliest_time - now)
            self._draw_later(wait, now + wait + MAX_KEY_WAIT_S)

    def draw_now(self) -> None:
        """Draw, and at the earliest after a pause again."""
        if not self.is_running:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        start_time = monotonic()
        self._draw()
        self._earliest_time = next_drawing_time(start_time, monotonic())

    def draw_after_keys(self, latest_time: float) -> None:
        """Draw when all typed keys have been handled, or at `latest_time`, because a held key must not stop drawing."""
        if self._has_unhandled_keys and monotonic() < latest_time:
            self._draw_later(KEY_CHECK_INTERVAL_S, latest_time)
        else:
            self.draw_now()

    def _draw_later(self, wait: float, latest_time: float) -> None:
        # Do not use a Textual timer: on a busy machine, short timers are lost, and with them all later drawings.
        self._timer = asyncio.get_running_loop().call_later(
            wait, self._app.call_next, self.draw_after_keys, latest_time
        )

    @property
    def _has_unhandled_keys(self) -> bool:
        """Whether messages, such as keys, are waiting at one of those through which keys pass."""
        if not self.is_running:
            return False
        receivers = (self._app, self._app.screen, self._app.focused)
        return any(receiver is not None and receiver.message_queue_size > 0 for receiver in receivers)
