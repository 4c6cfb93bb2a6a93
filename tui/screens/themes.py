"""The themes to choose from. The one that is marked is worn meanwhile."""

from collections.abc import Callable, Sequence
from typing import cast

from agent.config.options import ThemeName
from tui.screens.finder import Finder
from tui.text.themes import OFFERED
from tui.view.list_entry import ListEntry


class ThemesScreen(Finder[ThemeName | None]):
    """Gives the theme to keep; None when it stays as it was."""

    CSS = """
    ThemesScreen { align: center bottom; background: transparent; }
    ThemesScreen #dialog.high { height: 14; }
    """
    KEYS = "Up, Down show it   Enter keeps it   Esc leaves it as it was"

    def __init__(self, chosen: ThemeName, colorless: bool, wear: Callable[[ThemeName], None]) -> None:
        super().__init__((("Theme", "strong"),), theme_entries(chosen, colorless), "There is no such theme.")
        self._chosen = chosen
        self._wear = wear

    def first(self, entries: Sequence[ListEntry]) -> int:
        return next((index for index, entry in enumerate(entries) if entry.value == self._chosen), 0)

    def passed(self, entry: ListEntry | None) -> None:
        if entry is not None:
            self._wear(cast(ThemeName, entry.value))

    def taken(self, entry: ListEntry | None) -> None:
        if entry is not None:
            self.dismiss(cast(ThemeName, entry.value))

    def left(self) -> None:
        self._wear(self._chosen)
        self.dismiss(None)


def theme_entries(chosen: ThemeName, colorless: bool) -> tuple[ListEntry, ...]:
    told = "`NO_COLOR` is set in your environment, so that all themes look alike here"
    return tuple(
        ListEntry(
            offered.name,
            (
                ("● " if offered.name == chosen else "  ", "good"),
                (f"{offered.name:<15}", "text"),
                (offered.help, "dim"),
            ),
            f"{offered.name} {offered.help}",
            (((told, "warn"),),) if colorless else (),
        )
        for offered in OFFERED
    )
