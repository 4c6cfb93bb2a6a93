"""Screens, one per file."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.screens import compaction as compaction
    from ebbtide.tui.screens import context as context
    from ebbtide.tui.screens import panel as panel
    from ebbtide.tui.screens import question as question
else:
    __getattr__ = lazy_submodules(__name__)
