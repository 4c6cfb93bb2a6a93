"""Keys that produce text. Textual accepts only characters that Python considers printable. It drops all spaces but the
ordinary one, joiners, direction marks, private use characters and recently added characters."""

import unicodedata

from textual import events

from ebbtide.tui.prompt.key_arrivals import arrival_of, record_arrival

_NON_TEXT_CATEGORIES = ("Cc", "Cs")
"""Unicode categories that are not text: control characters and surrogates."""


class Key(events.Key):
    """A key event that counts as printable. The class must be called `Key`, because Textual derives the handler's name,
    `on_key`, from the class name."""

    @property
    def is_printable(self) -> bool:
        return True


def with_text_key(event: events.Event) -> events.Event:
    """Convert a key event to a printable one if its character is text. Other events are returned unchanged."""
    if not isinstance(event, events.Key) or event.is_printable or not event.character or event.is_forwarded:
        return event
    if any(unicodedata.category(character) in _NON_TEXT_CATEGORIES for character in event.character):
        return event
    key = Key(event.key, event.character)
    key.time = event.time
    record_arrival(key, arrival_of(event, event.time))
    return key
