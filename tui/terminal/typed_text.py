"""Keys that produce text. Textual accepts only what Python calls printable, and drops spaces of other scripts,
joiners, direction marks, private use characters and newer ones."""

import unicodedata

from textual import events

from ebbtide.tui.prompt.key_arrivals import arrival_of, stamp

_NO_TEXT = ("Cc", "Cs")
"""Categories that are not text: control characters and surrogates."""


class Key(events.Key):
    """A key that produces its character, whatever it is."""

    @property
    def is_printable(self) -> bool:
        return True


def as_typed(event: events.Event) -> events.Event:
    """The event, as such a key if its character is text."""
    if not isinstance(event, events.Key) or event.is_printable or not event.character or event.is_forwarded:
        return event
    if any(unicodedata.category(character) in _NO_TEXT for character in event.character):
        return event
    key = Key(event.key, event.character)
    key.time = event.time
    stamp(key, arrival_of(event, event.time))
    return key
