"""The terminal window: its title, its focus, and notifications."""

from collections.abc import Callable
from dataclasses import replace

from textual.events import AppBlur, AppFocus, Event, Key, MouseDown, Paste

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.terminal.notify import notification_text
from ebbtide.tui.view.blocks import SessionView

PUSH_TITLE = "\x1b[22;2t"
POP_TITLE = "\x1b[23;2t"
"""Restores the title that the terminal saved at the start."""

MIN_NEWS_TURN_S = 5.0
"""Minimum seconds of a turn whose end is worth a notification."""

IDLE_AFTER_S = 30.0
"""Seconds without a key after which the user is assumed to be away, if the terminal does not report focus."""


@dataclass(frozen=True, slots=True)
class WindowFocus:
    """Whether the user is looking at the window, by focus reports and keys."""

    is_in: bool | None = None
    """None: the terminal has not reported focus, and may never do so."""
    typed_at: float = 0.0

    def with_focus(self, is_in: bool) -> "WindowFocus":
        return replace(self, is_in=is_in)

    def with_key_at(self, now: float) -> "WindowFocus":
        """A key means that the user is looking, whatever was reported."""
        return WindowFocus(True if self.is_in is not None else None, now)

    def is_elsewhere(self, now: float) -> bool:
        return now - self.typed_at >= IDLE_AFTER_S if self.is_in is None else not self.is_in


def title_of(view: SessionView, name: str) -> str:
    """The window title. `name`: of the session or its folder."""
    mark = "? " if view.asked else "● " if view.busy else ""
    return notification_text(f"{mark}ebb · {name}" if name else f"{mark}ebb")


def set_title(title: str) -> str:
    """The sequence that sets the window title."""
    return f"\x1b]2;{notification_text(title)}\x07"


def news(before: SessionView, after: SessionView, seconds: float) -> str:
    """The notification for a change between two views; empty if there is none. `seconds`: duration of the turn."""
    known = {question.id for question in before.asked}
    if any(question.id not in known for question in after.asked):
        return "waits for your answer"
    if before.busy and not after.busy and seconds >= MIN_NEWS_TURN_S:
        return "is done"
    return ""


class TerminalWindow:
    """Updates the title and sends notifications for each drawn view."""

    def __init__(
        self, write: Callable[[str], object], tell: Callable[[str, str], object], clock: Callable[[], float]
    ) -> None:
        """`write`: to the terminal. `tell`: sends a title and text as a notification."""
        self._write = write
        self._tell = tell
        self._clock = clock
        self._focus = WindowFocus(typed_at=clock())
        self._view = SessionView()
        self._title = ""
        self._began = 0.0

    def saw(self, event: Event) -> None:
        """Track focus and keys."""
        match event:
            case AppFocus() | AppBlur():
                self._focus = self._focus.with_focus(isinstance(event, AppFocus))
            case Key() | Paste() | MouseDown():
                self._focus = self._focus.with_key_at(self._clock())
            case _:
                pass

    def show(self, view: SessionView, name: str) -> None:
        before, self._view = self._view, view
        now = self._clock()
        if view.busy and not before.busy:
            self._began = now
        title = title_of(view, name)
        if title != self._title:
            self._title = title
            self._write(set_title(title))
        text = news(before, view, now - self._began)
        if text and self._focus.is_elsewhere(now):
            self._tell(f"ebb · {name}" if name else "ebb", text)

    def restore_title(self) -> None:
        """Set the title again after another program had the terminal."""
        if self._title:
            self._write(set_title(self._title))
