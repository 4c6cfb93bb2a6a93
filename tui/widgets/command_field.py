"""A command that is changed before it runs."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from tui.text.sanitise import visible


class CommandField(TextArea):
    """A command that is written: Enter is done, Ctrl-J begins another line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", show=False, priority=True),
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", show=False, priority=True),
    ]

    class Taken(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    async def _on_paste(self, event: events.Paste) -> None:
        """Nothing in what is pasted hides from the user."""
        event.prevent_default()
        event.stop()
        self.replace(visible(event.text.replace("\r\n", "\n").replace("\r", "\n")), *self.selection)

    def action_take(self) -> None:
        self.post_message(self.Taken(self.text))

    def action_new_line(self) -> None:
        self.insert("\n")
