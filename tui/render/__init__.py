"""Renders blocks, Markdown and diffs as terminal lines."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tui.render import blocks as blocks
    from ebbtide.tui.render import themed_markdown as themed_markdown
else:
    __getattr__ = lazy_submodules(__name__)
