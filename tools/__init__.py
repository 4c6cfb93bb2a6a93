"""The tools that a model can call, one per file with its description beside it, and the code that they share."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools import base as base
    from ebbtide.tools import catalog as catalog
    from ebbtide.tools import contained_run as contained_run
    from ebbtide.tools import foreign_calls as foreign_calls
    from ebbtide.tools import read_only_run as read_only_run
    from ebbtide.tools import schema as schema
else:
    __getattr__ = lazy_submodules(__name__)
