"""Bubblewrap's command line for a boundary. Pure.

Two flags that one expects are missing, since each program is started as the leader of a session of its own already and
ended with all of it: `--new-session`, and `--die-with-parent`, which would end what a command leaves in the background.
"""

import os.path
from collections.abc import Iterator, Sequence

from tools.sandbox.boundary import Access, Boundary

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
NO_MORE_NAMESPACES = "--disable-userns"
"""Known from version 0.8 on; before, the filter of system calls alone holds it."""
SYSTEM = (
    "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys",
    "/proc/sys", "--tmpfs", "/run",
)  # fmt: skip
_ALSO_SEEN = ("/run/current-system", "/run/opengl-driver")
"""Where one Linux has its programs."""


def bubblewrap(
    program: Sequence[str], boundary: Boundary, folder: str, command: Sequence[str], system_calls: int
) -> tuple[str, ...]:
    """`program`: bubblewrap and the flags that this one knows; `system_calls`: a descriptor with the filter."""
    return (
        *program,
        *NAMESPACES,
        *(("--unshare-net",) if boundary.network == "none" else ()),
        *("--seccomp", str(system_calls)),
        *SYSTEM,
        *(word for path in _ALSO_SEEN for word in ("--ro-bind-try", path, path)),
        *("--bind", boundary.scratch, "/tmp"),
        *_mounts(boundary),
        *("--chdir", folder, "--"),
        *command,
    )


def _mounts(boundary: Boundary) -> Iterator[str]:
    """Those of outer folders first, since a mount covers what lies below it. An empty one is closed when all that is
    shown in it stands there."""
    places = sorted(boundary.places.items(), key=lambda item: item[0].split("/"))
    for path, access in places:
        yield from _mount(path, access)
    for path, access in places:
        if access == "hidden folder":
            yield from ("--remount-ro", path)


def _mount(path: str, access: Access) -> tuple[str, ...]:
    match access:
        case "write":
            return ("--bind", path, path)
        case "read":
            return ("--ro-bind", path, path)
        case "hidden folder":
            return ("--tmpfs", path)
        case "hidden file":
            return ("--dev-bind", os.path.devnull, path)
