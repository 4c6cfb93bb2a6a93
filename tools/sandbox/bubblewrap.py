"""Builds the bubblewrap command for a boundary. Pure.

`--new-session` is omitted because each program already leads its own session and is ended with all of it.
`--die-with-parent` is omitted because it would end background children of a command.
"""

import os.path
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from ebbtide.tools.process.shell import shell
from ebbtide.tools.sandbox.boundary import Access, Boundary

NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
NO_MORE_NAMESPACES = "--disable-userns"
"""Available from version 0.8. Before that, only the system call filter prevents them."""
SYSTEM = (
    "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--ro-bind", "/proc/sys",
    "/proc/sys", "--tmpfs", "/run",
)  # fmt: skip
_ALSO_SEEN = ("/run/current-system", "/run/opengl-driver")
"""Program folders of NixOS."""
_CHECK = r"""
found=$(< /proc/self/mountinfo)
[ -n "$found" ] || found=$(cat /proc/self/mountinfo)
while [ "$1" != -- ]; do
  case $found in *" $1 "*) shift;; *) echo 'sandbox: a folder was changed while it was put up' >&2; exit 125;; esac
done
shift
exec "$@"
"""
"""Starts the command only if every mount is the expected one. Bubblewrap mounts by path, so a process still running in
a folder could replace a path with a link, which would give access to its target."""
_ESCAPES = {ord(sign): f"\\{ord(sign):03o}" for sign in " \t\n\\"}
"""Escapes of paths in the kernel's mount table."""


def bubblewrap(
    program: Sequence[str],
    boundary: Boundary,
    folder: str,
    command: Sequence[str],
    system_calls: int,
    mounted: str,
    copies: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return the command. `program`: bubblewrap with the flags it supports; `system_calls`: descriptor of the filter;
    `mounted`: the mount table outside; `copies`: descriptors with the replacements of hidden files."""
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
    """Whether mounts made outside while a program runs would propagate into its sandbox."""
    return " shared:" in mounted or " master:" in mounted


def mounts_wanted(places: Mapping[str, Access], mounted: str) -> tuple[str, ...]:
    """Return device, source and path of each mount inside a writable folder."""
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
    """Yield the mounts, outer folders first, since a mount covers what is below it. An empty folder is made read-only
    once everything in it is mounted."""
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
