"""The sandbox for commands: what they can write, see and reach. The kernel enforces it. Permissions are decided
elsewhere."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.sandbox import blocked as blocked
    from ebbtide.tools.sandbox import boundary as boundary
    from ebbtide.tools.sandbox import bubblewrap as bubblewrap
    from ebbtide.tools.sandbox import git_metadata as git_metadata
    from ebbtide.tools.sandbox import git_settings as git_settings
    from ebbtide.tools.sandbox import job_ports as job_ports
    from ebbtide.tools.sandbox import landlock as landlock
    from ebbtide.tools.sandbox import look_only as look_only
    from ebbtide.tools.sandbox import mount_paths as mount_paths
    from ebbtide.tools.sandbox import network as network
    from ebbtide.tools.sandbox import network_namespace as network_namespace
    from ebbtide.tools.sandbox import rename_program as rename_program
    from ebbtide.tools.sandbox import renames as renames
    from ebbtide.tools.sandbox import seatbelt as seatbelt
    from ebbtide.tools.sandbox import submodules as submodules
    from ebbtide.tools.sandbox import system as system
    from ebbtide.tools.sandbox import system_calls as system_calls
else:
    __getattr__ = lazy_submodules(__name__)
