"""A line to write in."""

from textual.widgets import Input


class Field(Input):
    """An input whose cursor rests: nothing wakes up while nobody types."""

    def on_mount(self) -> None:
        self.cursor_blink = False
