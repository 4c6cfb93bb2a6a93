"""Lines to write in."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, TextArea

from tui.text.sanitise import visible
from tui.view.panel import PanelAction, PanelRow


class Field(Input):
    """An input whose cursor rests: nothing wakes up while nobody types."""

    DEFAULT_CSS = """
    Field > .input--placeholder { color: $text-muted; }
    Field:ansi > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    """

    def on_mount(self) -> None:
        self.cursor_blink = False
        self.select_on_focus = False  # what is written in it would be written over

    def go_on_with(self, character: str) -> None:
        """Writes on here what was begun elsewhere."""
        self.screen.set_focus(self)  # at once: the next character is for it
        self.insert_text_at_cursor(character)


class NoteField(Field):
    """A line for the words that an action of a list needs, which is there while they are written."""

    asked: tuple[PanelAction, PanelRow] | None = None
    """What they are for."""

    def ask(self, action: PanelAction, row: PanelRow) -> None:
        asks = action.asks
        assert asks is not None
        self.asked = (action, row)
        self.value, self.placeholder, self.select_on_focus = asks.begin(row), asks.placeholder(row), asks.replaces
        self.password = asks.is_hidden
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    def end(self) -> PanelAction | None:
        """For what words were being written until now."""
        asked, self.asked = self.asked, None
        self.display = False
        return asked[0] if asked is not None else None


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
