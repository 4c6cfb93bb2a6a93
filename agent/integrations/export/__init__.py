"""Exports sessions, either to a file that can be imported or as a page to read."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.integrations.export import html_page as html_page
else:
    __getattr__ = lazy_submodules(__name__)
