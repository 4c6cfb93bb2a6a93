"""The terminal window: title, focus and notifications."""

from collections.abc import Callable
from dataclasses import replace

from textual.events import AppBlur, AppFocus, Event, Key, MouseDown, Paste

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.terminal.notify import notification_text
from ebbtide.tui.view.blocks import SessionView

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"
"""Restores the title that `PUSH_TITLE` saved at startup."""

MIN_NOTIFIED_TURN_S = 5.0
"""Minimum length of a turn, in seconds, for a notification when it ends."""

IDLE_AFTER_S = 30.0
"""Seconds without a key after which the user is assumed to be away. Used if the terminal does not report focus."""


@dataclass(frozen=True, slots=True)
class WindowFocus:
    """Guesses from focus reports and keys whether the user is looking at the window."""

    has_focus: bool | None = None
    """Whether the window has the focus. None if the terminal has not reported it; some never do."""
    typed_at: float = 0.0

    def with_focus(self, has_focus: bool) -> "WindowFocus":
        return replace(self, has_focus=has_focus)

    def with_key_at(self, now: float) -> "WindowFocus":
        """Record a key. It shows that the user is looking, even if the terminal has reported that the window lost the
        focus."""
        return WindowFocus(True if self.has_focus is not None else None, now)

    def is_user_away(self, now: float) -> bool:
        return now - self.typed_at >= IDLE_AFTER_S if self.has_focus is None else not self.has_focus


def window_title(view: SessionView, name: str) -> str:
    """Build the window title. `name`: the name of the session or its folder."""
    prefix = "? " if view.open_questions else "● " if view.is_busy else ""
    return notification_text(f"{prefix}ebb · {name}" if name else f"{prefix}ebb")


def title_sequence(title: str) -> str:
    """Build the sequence that sets the window title."""
    return f"\x1b]2;{notification_text(title)}\x07"


def notification_for(previous_view: SessionView, new_view: SessionView, seconds: float) -> str:
    """Build the notification for the change between two views; empty if none is due. `seconds`: how long the turn
    took."""
    previous_ids = {question.id for question in previous_view.open_questions}
    if any(question.id not in previous_ids for question in new_view.open_questions):
        return "waiting for your answer"
    if previous_view.is_busy and not new_view.is_busy and seconds >= MIN_NOTIFIED_TURN_S:
        return "done"
    return ""


class TerminalWindow:
    """Updates the title and sends notifications whenever a view is drawn."""

    def __init__(
        self, write: Callable[[str], object], notify: Callable[[str, str], object], clock: Callable[[], float]
    ) -> None:
        """`write` writes to the terminal. `notify` sends a notification with a title and a text."""
        self._write = write
        self._notify = notify
        self._clock = clock
        self._focus = WindowFocus(typed_at=clock())
        self._view = SessionView()
        self._title = ""
        self._turn_started_at = 0.0

    def handle_event(self, event: Event) -> None:
        """Keep track of focus and keys."""
        match event:
            case AppFocus() | AppBlur():
                self._focus = self._focus.with_focus(isinstance(event, AppFocus))
            case Key() | Paste() | MouseDown():
                self._focus = self._focus.with_key_at(self._clock())
            case _:
                pass

    def show(self, view: SessionView, name: str) -> None:
        previous_view, self._view = self._view, view
        now = self._clock()
        if view.is_busy and not previous_view.is_busy:
            self._turn_started_at = now
        title = window_title(view, name)
        if title != self._title:
            self._title = title
            self._write(title_sequence(title))
        notification = notification_for(previous_view, view, now - self._turn_started_at)
        if notification and self._focus.is_user_away(now):
            self._notify(f"ebb · {name}" if name else "ebb", notification)

    def restore_title(self) -> None:
        """Set the title again after another program used the terminal."""
        if self._title:
            self._write(title_sequence(self._title))
