"""Static analysis of command lines: determines from the text what a command might do."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.commands import dangers as dangers
    from ebbtide.tools.commands import grammar as grammar
    from ebbtide.tools.commands import line_limits as line_limits
    from ebbtide.tools.commands import named_files as named_files
    from ebbtide.tools.commands import nested as nested
    from ebbtide.tools.commands import viewers as viewers
else:
    __getattr__ = lazy_submodules(__name__)
