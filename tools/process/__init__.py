"""Starts programs, communicates with them, and ends them together with all their children."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.process import child as child
    from ebbtide.tools.process import git as git
    from ebbtide.tools.process import shell as shell
    from ebbtide.tools.process import user_variables as user_variables
else:
    __getattr__ = lazy_submodules(__name__)
