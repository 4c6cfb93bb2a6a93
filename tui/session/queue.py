"""Messages waiting to be sent to the session."""

from collections.abc import Callable

from ebbtide.tools.lazy import dataclass
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line

MAX_QUEUE_LINES = 4
"""Maximum number of screen lines for the queue."""

_MAX_LINE_CHARS = 500
"""Maximum number of characters shown per message."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    text: str
    is_later: bool = False
    """Whether the message is sent after the turn rather than at its next step."""


class MessageQueue:
    """Unsent messages, oldest first. A message leaves the queue only when it is sent or goes back to the user."""

    def __init__(self) -> None:
        self.items: tuple[QueuedMessage, ...] = ()
        self._undelivered: tuple[QueuedMessage, ...] = ()
        """Messages that the turn has taken but not yet confirmed as delivered."""
        self._change_callbacks: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self.items)

    def add_change_callback(self, callback: Callable[[], None]) -> None:
        """Add a callback that is called on every change."""
        self._change_callbacks.append(callback)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all messages that are queued or not confirmed as delivered."""
        return tuple(item.text for item in (*self._undelivered, *self.items))

    def add(self, text: str, *, is_later: bool = False) -> None:
        self._set_items((*self.items, QueuedMessage(text, is_later)))

    def remove(self, index: int) -> str:
        """Remove the message at an index and return it."""
        text = self.items[index].text
        self._set_items(self.items[:index] + self.items[index + 1 :])
        return text

    def take(self, item: QueuedMessage) -> str:
        """Remove a message and return its text; empty if it is no longer queued."""
        index = next((position for position, queued_item in enumerate(self.items) if queued_item is item), None)
        return self.remove(index) if index is not None else ""

    def pop(self) -> str:
        """Remove the message for the next turn and return its text. This is the oldest message that is not marked for
        later, or else the oldest of all."""
        return self.remove(next((index for index, item in enumerate(self.items) if not item.is_later), 0))

    def take_for_step(self) -> tuple[str, ...]:
        """Take the messages for the next step. They count as unsent until `confirm_delivered` is called."""
        messages = tuple(item for item in self.items if not item.is_later)
        if messages:
            self._undelivered += messages
            self._set_items(tuple(item for item in self.items if item.is_later))
        return tuple(item.text for item in messages)

    def confirm_delivered(self, text: str) -> None:
        delivered_index = next((index for index, item in enumerate(self._undelivered) if item.text == text), None)
        if delivered_index is not None:
            self._undelivered = self._undelivered[:delivered_index] + self._undelivered[delivered_index + 1 :]
            self._set_items(self.items)

    def return_undelivered(self) -> None:
        """Put back messages that were not delivered before the turn ended."""
        if self._undelivered:
            items, self._undelivered = (*self._undelivered, *self.items), ()
            self._set_items(items)

    def take_all(self) -> str:
        """Empty the queue and return its text."""
        text = "\n\n".join(item.text for item in self.items)
        if self.items:
            self._set_items(())
        return text

    def clear(self) -> None:
        """Empty the queue without returning messages, because they are saved elsewhere."""
        self._undelivered = ()
        self._set_items(())

    def _set_items(self, items: tuple[QueuedMessage, ...]) -> None:
        self.items = items
        for callback in self._change_callbacks:
            callback()


def first_visible_index(count: int, marked_index: int | None) -> int:
    """Find the index of the first visible message. The last messages are visible, or those around the marked one."""
    end = count if marked_index is None else min(count, marked_index + MAX_QUEUE_LINES // 2 + 1)
    return max(0, min(count - MAX_QUEUE_LINES, end - MAX_QUEUE_LINES + (marked_index is not None)))


def queue_lines(items: tuple[QueuedMessage, ...], marked_index: int | None) -> tuple[Line, ...]:
    """Format the visible messages as lines, with key hints on the marked one."""
    first_index = first_visible_index(len(items), marked_index)
    visible_items = items[first_index : first_index + MAX_QUEUE_LINES]
    lines: list[Line] = []
    for index, item in enumerate(visible_items, first_index):
        timing_label = "later      " if item.is_later else "next step  "
        text = sanitise_line(item.text[:_MAX_LINE_CHARS])
        if index == marked_index:
            lines.append(((f"{timing_label}", "accent"), ("Enter edit  Del remove  ", "dim"), (text, "strong")))
        else:
            hidden_count = (
                first_index
                if index == first_index
                else len(items) - first_index - len(visible_items)
                if index == first_index + 3
                else 0
            )
            hidden_note = f"(+{hidden_count}) " if hidden_count else ""
            lines.append(((f"{timing_label}", "dim"), (hidden_note, "warn"), (text, "text")))
    return tuple(lines)
