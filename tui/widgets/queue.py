"""The queued messages shown above the prompt."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ebbtide.tui.session.queue import MAX_QUEUE_LINES, QueuedMessage, first_visible_index, queue_lines
from ebbtide.tui.text.styles import clipped_text, get_palette


class QueueLines(Widget, can_focus=True):
    """The queued messages, one per line. While the widget has the focus, one message is marked: Enter moves it to the
    prompt, Del removes it."""

    DEFAULT_CSS = f"""
    QueueLines {{
        display: none;
        height: auto;
        max-height: {MAX_QUEUE_LINES};
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("enter", "edit", show=False),
        Binding("delete,backspace", "remove", show=False),
        Binding("escape", "leave", show=False),
    ]

    class EditRequested(Message):
        """The user wants to edit a message in the prompt."""

        def __init__(self, item: QueuedMessage) -> None:
            super().__init__()
            self.item = item

    class RemoveRequested(Message):
        def __init__(self, item: QueuedMessage) -> None:
            super().__init__()
            self.item = item

    class QueueLeft(Message):
        """The user left the queue. `typed`: the character that the user typed to leave it, if any."""

        def __init__(self, typed: str = "") -> None:
            super().__init__()
            self.typed_text = typed

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._items: tuple[QueuedMessage, ...] = ()
        self._marked_index: int | None = None

    def show(self, items: tuple[QueuedMessage, ...]) -> None:
        """Show these messages, keeping the same one marked."""
        previous_items = self._items
        self._items = items
        if self._marked_index is not None:
            marked_item = previous_items[self._marked_index]
            new_index = next((index for index, item in enumerate(items) if item is marked_item), None)
            self._marked_index = (
                new_index if new_index is not None else min(self._marked_index, len(items) - 1) if items else None
            )
        self.display = bool(items)
        if not items and self.has_focus:
            self.post_message(self.QueueLeft())
        self.refresh(layout=True)

    def render(self) -> Text:
        return clipped_text(queue_lines(self._items, self._marked_index), get_palette(self.app.theme_variables))

    def on_focus(self) -> None:
        self._marked_index = len(self._items) - 1 if self._items else None
        self.refresh()

    def on_blur(self) -> None:
        self._marked_index = None
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        index = first_visible_index(len(self._items), self._marked_index) + event.y
        if index < len(self._items):
            self.post_message(self.EditRequested(self._items[index]))

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character:
            event.stop()
            self.post_message(self.QueueLeft(event.character))

    def action_move(self, step: int) -> None:
        if self._marked_index is None:
            return
        if self._marked_index + step >= len(self._items):
            self.post_message(self.QueueLeft())
        else:
            self._marked_index = max(0, self._marked_index + step)
            self.refresh()

    def action_edit(self) -> None:
        if self._marked_index is not None:
            self.post_message(self.EditRequested(self._items[self._marked_index]))

    def action_remove(self) -> None:
        if self._marked_index is not None:
            self.post_message(self.RemoveRequested(self._items[self._marked_index]))

    def action_leave(self) -> None:
        self.post_message(self.QueueLeft())
