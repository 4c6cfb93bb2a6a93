"""Shall this be done? The screen knows what it says, not what follows from the answer."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from tui.screens.guarded import GuardedScreen
from tui.text.inks import Line
from tui.text.styles import painted, palette_of
from tui.widgets.keyline import KeyLine


class ConfirmScreen(GuardedScreen[bool]):
    """Gives whether the user wants it."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,y", "dismiss(True)", show=False),
        Binding("escape,n,q", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str, lines: Sequence[Line], yes: str) -> None:
        """`yes`: what Enter does, in a word or two."""
        super().__init__()
        self._question = question
        self._lines = tuple(lines)
        self._yes = yes

    def means(self, key: events.Key) -> bool:
        return not key.is_printable or key.key in ("y", "n", "q")

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        said = painted(self._lines, palette)
        said.no_wrap, said.overflow = False, "fold"
        with Vertical(id="dialog"):
            yield Static(Text(self._question, palette.strong), id="headline")
            with VerticalScroll(id="subject"):
                yield Static(said)
            yield KeyLine(f"Enter {self._yes}   Esc cancels", id="answers")
