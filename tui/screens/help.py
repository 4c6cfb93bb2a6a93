"""All keys and commands, to look through and to find one by what it does."""

from tui.commands import COMMANDS
from tui.keys import KEYS as ALL_KEYS
from tui.screens.finder import Finder
from tui.view.help import help_entries
from tui.view.list_entry import ListEntry


class HelpScreen(Finder[str]):
    """Gives the command that is to be written into the prompt; empty when it was only looked at."""

    KEYS = "Up, Down, PgUp, PgDn   Enter writes a command into the prompt   Esc closes"

    def __init__(self, entries: tuple[ListEntry, ...] | None = None) -> None:
        found = help_entries(ALL_KEYS, COMMANDS) if entries is None else entries
        super().__init__((("Help", "strong"), ("  keys and commands", "dim")), found, "Nothing does that.")

    def taken(self, entry: ListEntry | None) -> None:
        if entry is not None and entry.value.startswith("/"):
            self.dismiss(entry.value)

    def left(self) -> None:
        self.dismiss("")
