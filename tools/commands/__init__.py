"""Static analysis of command lines: determines from the text what a command might do."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.commands import nested as nested
else:
    __getattr__ = lazy_submodules(__name__)
