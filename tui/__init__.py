"""The front ends: full-screen interface, line mode, command line, browser and editors."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui import app as app
    from ebbtide.tui import dialogs as dialogs
    from ebbtide.tui import presenter as presenter
    from ebbtide.tui import screen_context as screen_context
    from ebbtide.tui import slash_commands as slash_commands
    from ebbtide.tui import startup as startup
else:
    __getattr__ = lazy_submodules(__name__)
