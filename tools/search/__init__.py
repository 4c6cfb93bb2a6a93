"""Searches files and stored outputs, in processes that can be killed."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.search import files as files
    from ebbtide.tools.search import listing as listing
    from ebbtide.tools.search import output_search as output_search
    from ebbtide.tools.search import similar_paths as similar_paths
    from ebbtide.tools.search import walk as walk
else:
    __getattr__ = lazy_submodules(__name__)
