"""Stored content: lookup by reference, words or meaning; the session library, forks and export."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.agent.archive import library as library
    from ebbtide.agent.archive import locate as locate
    from ebbtide.agent.archive import recall_search as recall_search
    from ebbtide.agent.archive import session_listing as session_listing
    from ebbtide.agent.archive import tags as tags
else:
    __getattr__ = lazy_submodules(__name__)
