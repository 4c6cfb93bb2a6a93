"""The context of the session: what it holds, what it has cost. The screen knows colours; the lines come ready."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.overview import Overview
from tui.context import overview_lines
from tui.palette import painted, palette_of

MARGIN = 8
"""Cells of the screen's width that the dialog and its frame take."""


class ContextScreen(ModalScreen[None]):
    """Gives nothing; any of its keys closes it."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", show=False)]

    def __init__(self, overview: Overview) -> None:
        super().__init__()
        self._overview = overview

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        lines = overview_lines(self._overview, self.app.size.width - MARGIN)
        with Vertical(id="dialog"):
            with VerticalScroll(id="subject", classes="tall"):
                yield Static(painted(lines, palette))
            yield Static(Text("Up, Down   Esc closes", palette.dim), id="answers")
