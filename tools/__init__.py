"""The tools that a model can call, one per file with its description beside it, and the code that they share."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools import base as base
    from ebbtide.tools import catalog as catalog
else:
    __getattr__ = lazy_submodules(__name__)
