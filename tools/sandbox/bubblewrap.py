"""Bubblewrap's command line for a boundary. Pure.

Two flags that one expects are missing, since each program is started as the leader of a session of its own already and
ended with all of it: `--new-session`, and `--die-with-parent`, which would end what a command leaves in the background.
"""

import os.path
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ebbtide.tools.process.shell import shell
from ebbtide.tools.sandbox.boundary import Access, Boundary

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
NO_MORE_NAMESPACES = "--disable-userns"
"""Known from version 0.8 on; before, the filter of system calls alone holds it."""
SYSTEM = (
    "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys",
    "/proc/sys", "--tmpfs", "/run",
)  # fmt: skip
_ALSO_SEEN = ("/run/current-system", "/run/opengl-driver")
"""Where one Linux has its programs."""
_CHECK = r"""
found=$(< /proc/self/mountinfo)
[ -n "$found" ] || found=$(cat /proc/self/mountinfo)
while [ "$1" != -- ]; do
  case $found in *" $1 "*) shift;; *) echo 'sandbox: a folder was changed while it was put up' >&2; exit 125;; esac
done
shift
exec "$@"
"""
"""Begins the command where each mount is the one that is wanted. Bubblewrap goes by paths, and what still runs in a
folder may put a link in the place of one meanwhile, which would open what it leads to."""
_ESCAPES = {ord(sign): f"\\{ord(sign):03o}" for sign in " \t\n\\"}
"""As the kernel writes paths in its table of mounts."""


def bubblewrap(
    program: Sequence[str],
    boundary: Boundary,
    folder: str,
    command: Sequence[str],
    system_calls: int,
    mounted: str,
    copies: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """`program`: bubblewrap and the flags that this one knows; `system_calls`: a descriptor with the filter;
    `mounted`: the kernel's table of what is mounted outside; `copies`: descriptors of what hidden files show."""
    wanted = mounts_wanted(boundary.places, mounted)
    return (
        *program,
        *NAMESPACES,
        *(("--unshare-net",) if boundary.network == "none" else ()),
        *("--seccomp", str(system_calls)),
        *SYSTEM,
        *(word for path in _ALSO_SEEN for word in ("--ro-bind-try", path, path)),
        *("--bind", boundary.scratch, "/tmp"),
        *_mounts(boundary, copies),
        *("--chdir", folder, "--"),
        *((shell(), "-c", _CHECK, "sh", *wanted, "--") if wanted else ()),
        *command,
    )


def takes_in_later_mounts(mounted: str) -> bool:
    """Whether what is mounted outside while a program runs would be mounted in its sandbox, too."""
    return " shared:" in mounted or " master:" in mounted


def mounts_wanted(places: Mapping[str, Access], mounted: str) -> tuple[str, ...]:
    """Device, source and place of each mount of something in a folder that can be written."""
    rows = [line.split(" ")[2:5] for line in mounted.removesuffix("\n").split("\n")]
    known = {place: (device, source.rstrip("/")) for device, source, place in rows}
    return tuple(
        _row(path.translate(_ESCAPES), known)
        for path, access in places.items()
        if access in ("write", "read") and _lies_in_a_place(path, places)
    )


def _row(path: str, known: Mapping[str, tuple[str, str]]) -> str:
    at = path
    while at not in known and at != "/":
        at = at.rpartition("/")[0] or "/"
    device, source = known[at]
    return f"{device} {source + path[len(at.rstrip('/')) :] or '/'} {path}"


def _lies_in_a_place(path: str, places: Mapping[str, Access]) -> bool:
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in places:
            return places[path] in ("write", "read")
    return False


def _mounts(boundary: Boundary, copies: Mapping[str, int]) -> Iterator[str]:
    """Those of outer folders first, since a mount covers what lies below it. An empty one is closed when all that is
    shown in it stands there."""
    places = sorted(boundary.places.items(), key=lambda item: item[0].split("/"))
    for path, access in places:
        yield from ("--ro-bind-data", str(copies[path]), path) if path in copies else _mount(path, access)
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
