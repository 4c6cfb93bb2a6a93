"""Lines to write in."""

from textual.widgets import Input

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
