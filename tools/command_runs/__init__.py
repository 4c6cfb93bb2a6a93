"""Running command lines: how they are launched, what may run without approval, and their results."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.command_runs import changed_files as changed_files
    from ebbtide.tools.command_runs import contained as contained
    from ebbtide.tools.command_runs import foreground as foreground
    from ebbtide.tools.command_runs import jobs as jobs
    from ebbtide.tools.command_runs import launch as launch
    from ebbtide.tools.command_runs import read_only as read_only
else:
    __getattr__ = lazy_submodules(__name__)
