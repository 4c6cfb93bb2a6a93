"""Turns events into blocks, and lists into rows."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.view import block_texts as block_texts
    from ebbtide.tui.view import greeting as greeting
    from ebbtide.tui.view import questions as questions
    from ebbtide.tui.view import sessions as sessions
    from ebbtide.tui.view import side_panel as side_panel
else:
    __getattr__ = lazy_submodules(__name__)
