"""Widgets, one per file, and their helpers."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.widgets import history_search as history_search
    from ebbtide.tui.widgets import new_content_indicator as new_content_indicator
    from ebbtide.tui.widgets import question_panel as question_panel
    from ebbtide.tui.widgets import search_line as search_line
    from ebbtide.tui.widgets import side_panel as side_panel
    from ebbtide.tui.widgets import text_finder as text_finder
    from ebbtide.tui.widgets import transcript_search as transcript_search
    from ebbtide.tui.widgets import vim_keys as vim_keys
else:
    __getattr__ = lazy_submodules(__name__)
