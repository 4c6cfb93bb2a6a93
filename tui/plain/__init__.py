"""Line mode: the interface without a full screen."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.plain import app as app
    from ebbtide.tui.plain import dumb_terminal as dumb_terminal
    from ebbtide.tui.plain import line_editor as line_editor
    from ebbtide.tui.plain import start as start
else:
    __getattr__ = lazy_submodules(__name__)
