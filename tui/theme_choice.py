"""Which theme is worn: what was chosen, and what the terminal draws on."""

import os
import sys
from collections.abc import Callable
from typing import Any

from textual import constants
from textual.app import App
from textual.driver import Driver
from textual.theme import Theme

from ebbtide.agent.config.options import ThemeName
from ebbtide.tui.terminal.letters import Letters
from ebbtide.tui.text.locale import draws_letters_only
from ebbtide.tui.text.themes import ANSI, Ground, theme_for


def driver_class() -> type[Driver] | None:
    """The driver that hears what the terminal answers; None where another has to be used."""
    if constants.DRIVER is not None or sys.platform == "win32":
        return None
    from ebbtide.tui.terminal.colour_query import AnsweringDriver  # noqa: PLC0415  # deferred: it cannot be loaded on every platform

    return AnsweringDriver


class ThemeChoice:
    """The theme of an app, as it was chosen and as the terminal is."""

    def __init__(self, app: App[Any], chosen: ThemeName, colorless: bool) -> None:
        """`colorless`: whatever is chosen, there are no colours, and the rest is told by bold, underlined, reversed."""
        self._app = app
        self.chosen = chosen
        self.colorless = colorless
        self._ground: Ground | None = None
        if draws_letters_only(os.environ):
            app._filters.append(Letters())
        self._begin_with(self._fitting)

    def ask(self, write: Callable[[str], object]) -> None:
        """Asks the terminal what it draws on, in case that is of use. Nobody waits for the answer."""
        if not self.colorless and sys.platform != "win32" and constants.DRIVER is None:
            from ebbtide.tui.terminal.colour_query import QUESTION  # noqa: PLC0415  # deferred: as the driver

            write(QUESTION)

    def set_ground(self, ground: Ground) -> None:
        """Wears what was chosen on that ground."""
        self._ground = ground
        self.apply_theme(self.chosen)

    def apply_theme(self, name: ThemeName) -> None:
        self.chosen = name
        self._app.register_theme(self._fitting)
        self._app.theme = self._fitting.name

    @property
    def _fitting(self) -> Theme:
        return ANSI if self.colorless else theme_for(self.chosen, self._ground)

    def _begin_with(self, theme: Theme) -> None:
        """Wears a theme before anything is drawn: set as any other, all style sheets would be read once more."""
        app = self._app
        app.register_theme(theme)
        app.set_reactive(App.theme, theme.name)
        app.stylesheet.set_variables(app.get_css_variables())
        app._refresh_truecolor_filter(app.ansi_theme)  # nothing else begins with another theme than Textual's own
        app.set_class(theme.dark, "-dark-mode", update=False)
        app.set_class(not theme.dark, "-light-mode", update=False)
