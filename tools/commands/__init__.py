"""Static analysis of command lines: what a command may do, judged by its text."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.commands import nested as nested
else:
    __getattr__ = lazy_submodules(__name__)
