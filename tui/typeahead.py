"""Keeps keys typed earlier from answering a question."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from textual import events
from textual.app import App, ScreenStackError
from textual.driver import Driver

from ebbtide.tui.prompt.key_arrivals import Arrival, Arrivals, arrival_of
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.widgets.prompt import PromptInput

_ALWAYS = ("ctrl+c", "ctrl+z")
"""Keys that never answer a question."""


@runtime_checkable
class Gathering(Protocol):
    """A driver that can treat simultaneous input as one read."""

    gathers: Callable[[], bool]
    """Whether to gather input now."""


class TypeAhead:
    """Passes keys typed for a question on to it, and other keys to the prompt."""

    def __init__(self, app: App[Any], prompt: Callable[[], PromptInput], guard: float) -> None:
        """`guard`: seconds without a key before one counts as an answer."""
        self._app = app
        self._prompt = prompt
        self._arrivals = Arrivals(guard)
        self._drops_click = False
        """A mouse button was pressed too soon; its release must not count as a click."""
        self._gave_away_in: int | None = None
        """The read whose text last went to the prompt."""

    def attend(self, driver: Driver) -> None:
        """Have the driver gather simultaneous input while a question is open."""
        if isinstance(driver, Gathering):
            driver.gathers = lambda: self._arrivals.guard > 0 and self._asking() is not None

    def consumes(self, event: events.Event) -> bool:
        """Whether to drop an event. Decided before earlier events are processed, because the user has not seen their
        effect."""
        match event:
            case events.Key() if not event.is_forwarded:
                return self._takes_key(event)
            case events.Paste() if not event.is_forwarded:
                return self._takes_paste(event)
            case events.MouseDown() | events.MouseUp():
                return self._takes_click(event)
            case _:
                return False

    def _asking(self) -> TypeaheadGuard[Any] | None:
        """The screen with the open question."""
        try:
            screen = self._app.screen
        except ScreenStackError:  # there is none yet, or none any more
            return None
        return screen if isinstance(screen, TypeaheadGuard) and screen.is_asking else None

    def _takes_key(self, key: events.Key) -> bool:
        asking, arrival = self._asking(), arrival_of(key, key.time)
        if asking is None or not asking.could_answer(key):
            self._arrivals.saw(arrival)
            # Do not send a line that arrives whole: it was started at a question.
            return key.key == "enter" and arrival.read is not None and arrival.read == self._gave_away_in
        purpose = self._arrivals.take(arrival, asking.painted)
        if key.key in _ALWAYS:
            return False
        if purpose == "answer":
            if asking.accepts_key(key):
                return False
            self._arrivals.mark_ignored()
            if not key.is_printable:
                asking.handle_rejected_key(key)
        elif purpose == "text" and asking.has_text_focus and (key.is_printable or key.key == "backspace"):
            return asking.insert_key(key)
        if key.character and key.is_printable:
            self._prompt().insert(key.character)
            self._gave_away_in = arrival.read
            asking.handle_rejected_key(key)
        return True

    def _takes_paste(self, paste: events.Paste) -> bool:
        asking, arrival = self._asking(), arrival_of(paste, paste.time)
        if asking is None:
            self._arrivals.saw(arrival)
            return False
        purpose = self._arrivals.take(Arrival(arrival.at, arrival.read, is_alone=False), asking.painted)
        if purpose != "ahead" and asking.has_text_focus:
            return False
        self._arrivals.mark_ignored()
        self._prompt().post_message(events.Paste(paste.text))
        asking.handle_rejected_key(None)
        return True

    def _takes_click(self, event: events.MouseDown | events.MouseUp) -> bool:
        if isinstance(event, events.MouseUp):
            dropped, self._drops_click = self._drops_click, False
            return dropped
        asking = self._asking()
        if asking is not None:
            self._drops_click = self._arrivals.would_be(arrival_of(event, event.time), asking.painted) != "answer"
        return self._drops_click
