"""The repository map: the names that each file defines and uses, ranked by importance. It is built in a separate
process."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.integrations.code_map import map_format as map_format
    from ebbtide.tools.integrations.code_map import run as run
else:
    __getattr__ = lazy_submodules(__name__)
