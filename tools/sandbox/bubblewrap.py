"""Builds the bubblewrap command for a boundary. No I/O.

`--new-session` is not used, because each program already leads its own session, and all processes of the session are
ended together. `--die-with-parent` is not used, because it would end the background children of a command.
"""

import os.path
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ebbtide.tools.process.shell import shell_path
from ebbtide.tools.sandbox.boundary import Boundary, PathAccess

UNSHARE_FLAGS = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
DISABLE_USERNS_FLAG = "--disable-userns"
"""Prevents commands from creating namespaces. Needs bubblewrap 0.8. With older versions, only the system call filter
prevents this."""
_BASE_MOUNTS = (
    "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--tmpfs", "/run",
)  # fmt: skip
SYSTEM_MOUNTS = ("--cap-drop", "ALL", "--ro-bind", "/", "/", *_BASE_MOUNTS)
_READ_ONLY_MOUNTS = ("--cap-drop", "ALL", *_BASE_MOUNTS)
"""Mounts for commands that are only allowed to read. Such commands do not see the rest of the file system."""
_NIXOS_PROGRAM_FOLDERS = ("/run/current-system", "/run/opengl-driver")
"""Program folders of NixOS."""
_CHECK_MOUNTS_SCRIPT = r"""
found=$(< /proc/self/mountinfo)
[ -n "$found" ] || found=$(cat /proc/self/mountinfo)
while [ "$1" != -- ]; do
  case $found in *" $1 "*) shift;; *) echo 'sandbox: a folder was changed while it was put up' >&2; exit 125;; esac
done
shift
exec "$@"
"""
"""Starts the command only if every mount is as expected. Bubblewrap mounts whatever it finds at a path. A process that
is still running could replace a path with a link, and the link's target would be mounted."""
_MOUNT_TABLE_ESCAPES = {ord(character): f"\\{ord(character):03o}" for character in " \t\n\\"}
"""Escapes for paths in the kernel's mount table."""


def build_bubblewrap_command(
    program: Sequence[str],
    boundary: Boundary,
    folder: str,
    command: Sequence[str],
    filter_descriptor: int,
    mount_table: str,
    copies: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Build the command line that runs a command in bubblewrap. `program`: bubblewrap with the flags that it supports.
    `filter_descriptor`: the descriptor of the system call filter. `mount_table`: the mount table outside the sandbox.
    `copies`: descriptors of the replacements for hidden files."""
    mount_rows = expected_mounts(boundary.access_by_path, mount_table)
    return (
        *program,
        *UNSHARE_FLAGS,
        *(("--unshare-net",) if boundary.network == "none" else ()),
        *("--seccomp", str(filter_descriptor)),
        *(_READ_ONLY_MOUNTS if boundary.is_read_only else SYSTEM_MOUNTS),
        *(word for path in _NIXOS_PROGRAM_FOLDERS for word in ("--ro-bind-try", path, path)),
        *("--bind", boundary.temp_folder, "/tmp"),
        *_mount_flags(boundary, copies),
        *(("--remount-ro", "/tmp") if boundary.is_read_only else ()),
        *("--chdir", folder, "--"),
        *((shell_path(), "-c", _CHECK_MOUNTS_SCRIPT, "sh", *mount_rows, "--") if mount_rows else ()),
        *command,
    )


def has_shared_mounts(mount_table: str) -> bool:
    """Whether the mount table has shared mounts. If so, mounts made outside while a command runs would appear in its
    sandbox."""
    return " shared:" in mount_table or " master:" in mount_table


def expected_mounts(access_by_path: Mapping[str, PathAccess], mount_table: str) -> tuple[str, ...]:
    """Return the device, source and path of each mount below another mounted path, as listed in the kernel's mount
    table."""
    rows = [line.split(" ")[2:5] for line in mount_table.removesuffix("\n").split("\n")]
    mount_points = {mount_point: (device, source.rstrip("/")) for device, source, mount_point in rows}
    return tuple(
        _expected_mount(path.translate(_MOUNT_TABLE_ESCAPES), mount_points)
        for path, access in access_by_path.items()
        if access in ("write", "read") and _is_below_visible_path(path, access_by_path)
    )


def _expected_mount(path: str, mount_points: Mapping[str, tuple[str, str]]) -> str:
    mount_point = path
    while mount_point not in mount_points and mount_point != "/":
        mount_point = mount_point.rpartition("/")[0] or "/"
    device, source = mount_points[mount_point]
    return f"{device} {source + path[len(mount_point.rstrip('/')) :] or '/'} {path}"


def _is_below_visible_path(path: str, access_by_path: Mapping[str, PathAccess]) -> bool:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in access_by_path:
            return access_by_path[path] in ("write", "read")
    return False


def _mount_flags(boundary: Boundary, copies: Mapping[str, int]) -> Iterator[str]:
    """Yield the flags for all mounts. Outer folders come first, because a mount covers everything below it. A hidden
    folder is made read-only at the end, once everything in it is mounted."""
    mounts = sorted(boundary.access_by_path.items(), key=lambda item: item[0].split("/"))
    for path, access in mounts:
        yield from ("--ro-bind-data", str(copies[path]), path) if path in copies else _mount_flags_for(path, access)
    for path, access in mounts:
        if access == "hidden folder":
            yield from ("--remount-ro", path)


def _mount_flags_for(path: str, access: PathAccess) -> tuple[str, ...]:
    match access:
        case "write":
            return ("--bind", path, path)
        case "read":
            return ("--ro-bind", path, path)
        case "hidden folder":
            return ("--tmpfs", path) if path != "/" else ()
        case "locked file":
            return ("--ro-bind", os.path.devnull, path)  # a device cannot be opened on such a mount
        case "hidden file":
            return ("--dev-bind", os.path.devnull, path)
