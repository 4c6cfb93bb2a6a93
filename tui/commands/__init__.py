"""The slash commands, for the full-screen interface and line mode."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.commands import extensions as extensions
    from ebbtide.tui.commands import first_run as first_run
    from ebbtide.tui.commands import registry as registry
    from ebbtide.tui.commands import sessions as sessions
else:
    __getattr__ = lazy_submodules(__name__)
