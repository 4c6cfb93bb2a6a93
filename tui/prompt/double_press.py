"""Keys that take effect only when pressed twice."""

from collections.abc import Callable
from time import monotonic
from typing import Literal, TypeAlias

DOUBLE_PRESS_S = 2.0
"""Maximum number of seconds between the two presses. The hint is shown for this long."""


class DoublePress:
    """Detects the second press of a key."""

    def __init__(self) -> None:
        self._pressed_at: float | None = None

    def press(self) -> bool:
        """Record a press. Returns whether it is the second one within the time limit. A third press in a row counts as
        a first."""
        now, previous_press = monotonic(), self._pressed_at
        is_second = previous_press is not None and now - previous_press < DOUBLE_PRESS_S
        self._pressed_at = None if is_second else now
        return is_second


ExitAction: TypeAlias = Literal["clear", "stop", "warn", "leave"]
"""What Ctrl-C or Ctrl-D does: clear the prompt, stop the turn, hint that another press exits, or exit."""


class ExitKeys:
    """Decides what Ctrl-C and Ctrl-D do each time they are pressed."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last_action: ExitAction | None = None
        self._pressed_at = 0.0
        self._was_running = False
        """Whether a turn was running when a key was last pressed."""

    def press_ctrl_c(self, *, has_text: bool, is_running: bool) -> ExitAction:
        """Decide what Ctrl-C does. `has_text`: whether the prompt contains text. `is_running`: whether a turn is
        running. Exiting works even if a turn is slow to stop."""
        previous_action = self._recent_action()
        if has_text:
            return self._record_action("clear", is_running)
        if previous_action == "warn" and (self._was_running or not is_running):
            return self._record_action("leave", is_running)
        return self._record_action("stop" if is_running and previous_action != "stop" else "warn", is_running)

    def press_ctrl_d(self, *, is_running: bool) -> ExitAction:
        """Decide what Ctrl-D does in an empty prompt. It exits, but during a turn only when pressed twice."""
        return self._record_action("warn" if is_running and self._recent_action() != "warn" else "leave", is_running)

    def _recent_action(self) -> ExitAction | None:
        return self._last_action if self._clock() - self._pressed_at < DOUBLE_PRESS_S else None

    def _record_action(self, action: ExitAction, is_running: bool) -> ExitAction:
        self._last_action, self._pressed_at, self._was_running = action, self._clock(), is_running
        return action
