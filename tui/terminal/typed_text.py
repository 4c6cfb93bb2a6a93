"""Keys that write something. Textual takes only what Python calls printable for text, and drops the rest: blanks of
other scripts, joiners, marks of direction, private use, and what is newer than Python's tables."""

import unicodedata

from textual import events

from ebbtide.tui.prompt.key_arrivals import arrival_of, stamp

_NO_TEXT = ("Cc", "Cs")
"""Control characters, which keys send that write nothing, and halves of characters."""


class Key(events.Key):
    """A key whose character is text, whatever that is."""

    @property
    def is_printable(self) -> bool:
        return True


def as_typed(event: events.Event) -> events.Event:
    """The event, as a key that writes something where its character is text."""
    if not isinstance(event, events.Key) or event.is_printable or not event.character or event.is_forwarded:
        return event
    if any(unicodedata.category(character) in _NO_TEXT for character in event.character):
        return event
    key = Key(event.key, event.character)
    key.time = event.time
    stamp(key, arrival_of(event, event.time))
    return key
