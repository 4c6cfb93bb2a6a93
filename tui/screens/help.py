"""Keys and commands, from their tables."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.commands import COMMANDS
from tui.keys import KEYS
from tui.palette import Palette, palette_of


class HelpScreen(ModalScreen[None]):
    """Gives nothing; any of its keys closes it."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,f1", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            with VerticalScroll(id="subject"):
                yield Static(help_text(palette))
            yield Static(Text("Esc closes", palette.dim), id="answers")


def help_text(palette: Palette) -> Text:
    rows = [(key.shown, key.help) for key in KEYS]
    commands = [(command.usage, command.help) for command in COMMANDS]
    text = Text(end="")
    for heading, table in (("Keys", rows), ("Commands", commands)):
        width = max(len(name) for name, _ in table)
        text.append(f"{heading}\n", palette.strong)
        for name, meaning in table:
            text.append(f"  {name.ljust(width)}  ", palette.accent)
            text.append(f"{meaning}\n", palette.text)
        text.append("\n")
    text.rstrip()
    return text
