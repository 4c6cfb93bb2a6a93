"""Keys and commands, from their tables."""

from typing import ClassVar

from rich.table import Table
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
            with VerticalScroll(id="subject", classes="tall"):
                yield Static(help_table(palette))
            yield Static(Text("Up, Down scroll   Esc closes", palette.dim), id="answers")


def help_table(palette: Palette) -> Table:
    """Both tables, one column of names and one of meanings."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row(Text("Keys", palette.strong))
    for key in KEYS:
        table.add_row(Text(f"  {key.shown}", palette.keyword), Text(key.help, palette.text))
    table.add_row()
    table.add_row(Text("Commands", palette.strong))
    for command in COMMANDS:
        table.add_row(Text(f"  {command.usage}", palette.keyword), Text(command.help, palette.text))
    return table
