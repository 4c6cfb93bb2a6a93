"""Prevents keys that were typed before a question appeared from answering it."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from textual import events
from textual.app import App, ScreenStackError
from textual.driver import Driver

from ebbtide.tui.prompt.key_arrivals import KeyArrival, KeyArrivals, arrival_of
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.widgets.prompt import PromptInput

_NON_ANSWER_KEYS = ("ctrl+c", "ctrl+z")
"""Keys that never answer a question."""


@runtime_checkable
class ReadJoiningDriver(Protocol):
    """A driver that can treat input arriving together as one read."""

    joins_reads: Callable[[], bool]
    """Whether the driver should join reads now."""


class TypeaheadFilter:
    """Passes keys meant for a question to the question, and other keys to the prompt."""

    def __init__(self, app: App[Any], get_prompt: Callable[[], PromptInput], guard_s: float) -> None:
        """`guard_s`: how many seconds must pass without a key before a key counts as an answer."""
        self._app = app
        self._get_prompt = get_prompt
        self._arrivals = KeyArrivals(guard_s)
        self._drops_release = False
        """Whether to drop the next mouse button release, because the button was pressed too early to be a click on the
        question."""
        self._early_events: list[events.Key | events.Paste] | None = []
        """What was typed before there was a prompt; None once there is one."""
        self._prompt_read_number: int | None = None
        """Number of the read whose text was last put into the prompt."""

    def watch_driver(self, driver: Driver) -> None:
        """Let the driver treat input arriving together as one read while a question is open."""
        if isinstance(driver, ReadJoiningDriver):
            driver.joins_reads = lambda: self._arrivals.guard > 0 and self._question_screen() is not None

    def release_early_events(self) -> None:
        """Handle what was typed before there was a prompt, such as while Python was starting."""
        early_events, self._early_events = self._early_events or (), None
        for event in early_events:
            # A terminal that is not read yet turns Enter into a line feed.
            is_enter = isinstance(event, events.Key) and event.key == "ctrl+j"
            self._app.post_message(events.Key("enter", "\r") if is_enter else event)

    def consume_event(self, event: events.Event) -> bool:
        """Whether to drop an event. This is decided before earlier events have been processed, because the user has not
        seen their effects yet."""
        if self._early_events is not None and isinstance(event, events.Key | events.Paste):
            self._early_events.append(event)
            return True
        match event:
            case events.Key() if not event.is_forwarded:
                return self._consume_key(event)
            case events.Paste() if not event.is_forwarded:
                return self._consume_paste(event)
            case events.MouseDown() | events.MouseUp():
                return self._consume_mouse_event(event)
            case _:
                return False

    def _question_screen(self) -> TypeaheadGuard[Any] | None:
        """Find the screen with the open question, if any."""
        try:
            screen = self._app.screen
        except ScreenStackError:  # before the first screen or after the last one
            return None
        return screen if isinstance(screen, TypeaheadGuard) and screen.is_asking else None

    def _consume_key(self, key: events.Key) -> bool:
        question, arrival = self._question_screen(), arrival_of(key, key.time)
        if question is None or not question.could_answer(key):
            self._arrivals.record_key(arrival)
            # Drop Enter if it arrived in one read with text that was moved from a question to the prompt. Otherwise,
            # that text would be submitted.
            return (
                key.key == "enter"
                and arrival.read_number is not None
                and arrival.read_number == self._prompt_read_number
            )
        purpose = self._arrivals.record_answer_key(arrival, question.painted_at)
        if key.key in _NON_ANSWER_KEYS:
            return False
        if purpose == "answer":
            if question.accepts_key(key):
                return False
            self._arrivals.mark_ignored()
            if not key.is_printable:
                question.handle_rejected_key(key)
        elif purpose == "text" and question.has_text_focus and (key.is_printable or key.key == "backspace"):
            return question.insert_key(key)
        if key.character and key.is_printable:
            self._get_prompt().insert(key.character)
            self._prompt_read_number = arrival.read_number
            question.handle_rejected_key(key)
        return True

    def _consume_paste(self, paste: events.Paste) -> bool:
        question, arrival = self._question_screen(), arrival_of(paste, paste.time)
        if question is None:
            self._arrivals.record_key(arrival)
            return False
        purpose = self._arrivals.record_answer_key(
            KeyArrival(arrival.time, arrival.read_number, is_alone=False), question.painted_at
        )
        if purpose != "typeahead" and question.has_text_focus:
            return False
        self._arrivals.mark_ignored()
        self._get_prompt().post_message(events.Paste(paste.text))
        question.handle_rejected_key(None)
        return True

    def _consume_mouse_event(self, event: events.MouseDown | events.MouseUp) -> bool:
        if isinstance(event, events.MouseUp):
            drops_release, self._drops_release = self._drops_release, False
            return drops_release
        question = self._question_screen()
        if question is not None:
            self._drops_release = (
                self._arrivals.purpose_if_pressed(arrival_of(event, event.time), question.painted_at) != "answer"
            )
        return self._drops_release
