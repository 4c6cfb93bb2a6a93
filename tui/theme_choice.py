"""The theme in use, from the user's choice and the terminal's background."""

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
    """The driver class that reads the terminal's replies, or None to use the default."""
    if constants.DRIVER is not None or sys.platform == "win32":
        return None
    from ebbtide.tui.terminal.colour_query import AnsweringDriver  # noqa: PLC0415  # deferred: it cannot be loaded on every platform

    return AnsweringDriver


class ThemeChoice:
    """The theme of an app, from the user's choice and the terminal's background."""

    def __init__(self, app: App[Any], chosen: ThemeName, colorless: bool) -> None:
        """`colorless`: never use colours, only bold, underline and reverse."""
        self._app = app
        self.chosen = chosen
        self.colorless = colorless
        self._ground: Ground | None = None
        if draws_letters_only(os.environ):
            app._filters.append(Letters())
        self._begin_with(self._fitting)

    def ask(self, write: Callable[[str], object]) -> None:
        """Query the terminal's background, if needed. The reply arrives later."""
        if not self.colorless and sys.platform != "win32" and constants.DRIVER is None:
            from ebbtide.tui.terminal.colour_query import QUESTION  # noqa: PLC0415  # deferred: as the driver

            write(QUESTION)

    def set_ground(self, ground: Ground) -> None:
        """Apply the choice for that background."""
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
        """Set a theme before anything is drawn. Setting it the usual way would parse all style sheets again."""
        app = self._app
        app.register_theme(theme)
        app.set_reactive(App.theme, theme.name)
        app.stylesheet.set_variables(app.get_css_variables())
        app._refresh_truecolor_filter(app.ansi_theme)  # nothing else begins with another theme than Textual's own
        app.set_class(theme.dark, "-dark-mode", update=False)
        app.set_class(not theme.dark, "-light-mode", update=False)
