"""A line to write in."""

from textual.widgets import Input


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
