"""Chooses the theme from the user's setting and the terminal's background."""

import os
import sys
from collections.abc import Callable
from typing import Any

from textual import constants
from textual.app import App
from textual.driver import Driver
from textual.theme import Theme

from ebbtide.agent.config.options import ThemeName
from ebbtide.tui import terminal
from ebbtide.tui.terminal.ascii_filter import AsciiFilter
from ebbtide.tui.text.locale import is_ascii_locale
from ebbtide.tui.text.themes import ANSI, BackgroundTone, theme_for


def driver_class() -> type[Driver] | None:
    """Get the driver class that reads the terminal's replies, or None for the default driver."""
    if constants.DRIVER is not None or sys.platform == "win32":
        return None
    return terminal.terminal_driver.ReplyReadingDriver


class ThemeManager:
    """An app's theme, chosen from the user's setting and the terminal's background."""

    def __init__(self, app: App[Any], chosen_theme: ThemeName, is_colorless: bool) -> None:
        """`is_colorless`: whether to use bold, underline and reverse instead of colours."""
        self._app = app
        self.chosen_theme = chosen_theme
        self.is_colorless = is_colorless
        self._background: BackgroundTone | None = None
        if is_ascii_locale(os.environ):
            app._filters.append(AsciiFilter())
        self._set_initial_theme(self._current_theme)

    def query_background(self, write: Callable[[str], object]) -> None:
        """Ask the terminal for its background colour, unless colours are off. The reply comes later."""
        if not self.is_colorless and sys.platform != "win32" and constants.DRIVER is None:
            write(terminal.terminal_driver.BACKGROUND_QUERY)

    def set_background(self, background: BackgroundTone) -> None:
        """Apply the user's choice for this background."""
        self._background = background
        self.apply_theme(self.chosen_theme)

    def apply_theme(self, name: ThemeName) -> None:
        self.chosen_theme = name
        self._app.register_theme(self._current_theme)
        self._app.theme = self._current_theme.name

    @property
    def _current_theme(self) -> Theme:
        return ANSI if self.is_colorless else theme_for(self.chosen_theme, self._background)

    def _set_initial_theme(self, theme: Theme) -> None:
        """Set a theme before anything is drawn. Assigning `App.theme` would parse all style sheets again."""
        app = self._app
        app.register_theme(theme)
        app.set_reactive(App.theme, theme.name)
        app.stylesheet.set_variables(app.get_css_variables())
        app._refresh_truecolor_filter(app.ansi_theme)  # needed because Textual's default is another theme
        app.set_class(theme.dark, "-dark-mode", update=False)
        app.set_class(not theme.dark, "-light-mode", update=False)
