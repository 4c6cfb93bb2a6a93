"""Messages queued until the session takes them."""

from collections.abc import Callable

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line

MAX_QUEUE_LINES = 4
"""Maximum lines of the queue on the screen."""

_MAX_LINE_CHARS = 500
"""Maximum characters of a message in its line."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    text: str
    is_later: bool = False
    """Whether it waits for the end of the turn instead of its next step."""


class Queue:
    """Unsent messages, oldest first. They leave only into a turn or back to the user."""

    def __init__(self) -> None:
        self.items: tuple[QueuedMessage, ...] = ()
        self._taken: tuple[QueuedMessage, ...] = ()
        """Messages given to the turn but not yet confirmed."""
        self._changed: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.items)

    def watch(self, changed: Callable[[], None]) -> None:
        """Set the callback for changes."""
        self._changed.append(changed)

    @property
    def texts(self) -> tuple[str, ...]:
        """All unconfirmed messages."""
        return tuple(item.text for item in (*self._taken, *self.items))

    def add(self, text: str, *, later: bool = False) -> None:
        self._set_items((*self.items, QueuedMessage(text, later)))

    def remove(self, index: int) -> str:
        """Remove and return a message."""
        text = self.items[index].text
        self._set_items(self.items[:index] + self.items[index + 1 :])
        return text

    def take(self, item: QueuedMessage) -> str:
        """Remove and return this message; empty if it is gone."""
        index = next((n for n, other in enumerate(self.items) if other is item), None)
        return self.remove(index) if index is not None else ""

    def pop(self) -> str:
        """Remove and return the text for the next turn: the oldest not marked for later, or else the oldest."""
        return self.remove(next((n for n, item in enumerate(self.items) if not item.is_later), 0))

    def take_for_step(self) -> tuple[str, ...]:
        """Lend the messages for the next step. They stay in the queue until `confirm_delivered`."""
        taken = tuple(item for item in self.items if not item.is_later)
        if taken:
            self._taken += taken
            self._set_items(tuple(item for item in self.items if item.is_later))
        return tuple(item.text for item in taken)

    def confirm_delivered(self, text: str) -> None:
        first = next((n for n, item in enumerate(self._taken) if item.text == text), None)
        if first is not None:
            self._taken = self._taken[:first] + self._taken[first + 1 :]
            self._set_items(self.items)

    def return_undelivered(self) -> None:
        """The turn is over: unconfirmed messages are queued again."""
        if self._taken:
            items, self._taken = (*self._taken, *self.items), ()
            self._set_items(items)

    def take_back(self) -> str:
        """Empty the queue and return its text."""
        text = "\n\n".join(item.text for item in self.items)
        if self.items:
            self._set_items(())
        return text

    def clear(self) -> None:
        """Empty the queue: its messages are saved elsewhere."""
        self._taken = ()
        self._set_items(())

    def _set_items(self, items: tuple[QueuedMessage, ...]) -> None:
        self.items = items
        for changed in self._changed:
            changed()


def first_visible(count: int, marked: int | None) -> int:
    """Index of the first visible message: the last ones are shown, or those around the mark."""
    last = count if marked is None else min(count, marked + MAX_QUEUE_LINES // 2 + 1)
    return max(0, min(count - MAX_QUEUE_LINES, last - MAX_QUEUE_LINES + (marked is not None)))


def queue_lines(items: tuple[QueuedMessage, ...], marked: int | None) -> tuple[Line, ...]:
    """The lines of the visible messages, with key hints for the marked one."""
    first = first_visible(len(items), marked)
    shown = items[first : first + MAX_QUEUE_LINES]
    lines: list[Line] = []
    for index, item in enumerate(shown, first):
        when = "later      " if item.is_later else "next step  "
        text = sanitised_line(item.text[:_MAX_LINE_CHARS])
        if index == marked:
            lines.append(((f"{when}", "accent"), ("Enter edits  Del removes  ", "dim"), (text, "strong")))
        else:
            hidden = first if index == first else len(items) - first - len(shown) if index == first + 3 else 0
            more = f"(+{hidden}) " if hidden else ""
            lines.append(((f"{when}", "dim"), (more, "warn"), (text, "text")))
    return tuple(lines)
