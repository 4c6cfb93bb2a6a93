"""Infers from the output of a failed command what the sandbox probably blocked. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from os.path import join, normpath
from re import Match

from ebbtide.tools.lazy import regex
from ebbtide.tools.sandbox.boundary import Boundary

_BUSY = "Device or resource busy"
_UNWRITABLE = regex(rf"([^\n]{{0,400}})(?:Read-only file system|EROFS|{_BUSY})([^\n]{{0,400}})")
_PERMISSION_DENIED = regex(r"([^\n]{0,400})(?:Permission denied|EACCES|Operation not permitted)([^\n]{0,400})")
"""Error messages when Landlock or the macOS sandbox blocks something."""
_PATH = regex(r"[^\s'\"`:;,()<>\[\]’‘]*/[^\s'\"`:;,()<>\[\]’‘]*")
_NETWORK = regex(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known|nodename nor servname"
    r"|Network is unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo|No address associated with hostname|ENOTFOUND"
    r"|failed to lookup address|dial tcp: lookup|Could not connect to server"
)
_HERE = r"(?:localhost|127\.0\.0\.1|\[::1\]|::1:)"
_CONNECTION_REFUSED = r"(?:refused|ECONNREFUSED|ould ?n[o']t connect|Failed to connect|Can't connect)"
_SERVERS = regex(rf"{_HERE}[^\n]{{0,200}}{_CONNECTION_REFUSED}|{_CONNECTION_REFUSED}[^\n]{{0,200}}{_HERE}")
_MAX_LINE_CHARS = 800
"""Maximum number of characters examined per line."""
_DOCKER = regex(r"docker\.sock|Cannot connect to the Docker daemon|Cannot connect to Podman|podman\.sock")
_SUDO = regex(
    r"no new privileges|must be setuid root|effective uid is not 0|sudo: .*(?:must be owned|unable to)"
    r"|su: (?:cannot set groups|Authentication failure|.*Operation not permitted)"
)
_OWNERS = regex(r"chown: changing ownership|chgrp: changing group|Cannot change ownership|chown\b.*\bE(?:PERM|INVAL)\b")
_SSH = regex(r"Host key verification failed|Permission denied \(publickey|Could not open a connection to your auth")
_SIGNING_FAILED = regex(r"gpg failed to sign|No secret key|Couldn't load public key")
_NO_LOGIN = regex(r"\bE40[13]\b|\bENEEDAUTH\b|\bcode E404\b|\bYN0041\b|\bERR_PNPM_FETCH_40[134]\b")
"""Error messages of package managers if a registry requires a login."""
_DEVICES = regex(r"/dev/(?:dri|nvidia\w*|kvm|fuse|kfd|snd|video\d*|tty(?:USB|ACM)\d+)\b")
_TWO_FOLDERS = regex(r"Invalid cross-device link|EXDEV")
_NAMESPACES = regex(r"unshare failed|clone.*Operation not permitted|No usable sandbox|mount: .*(?:denied|permitted)")


_GIT_ELSEWHERE = regex(
    r"unable to create temporary object directory|insufficient permission for adding an object to repository database"
)
"""Git's error message when pushing to a local repository, which does not name it."""
_LISTERS = "ps pgrep pkill pidof killall lsof fuser ss netstat top htop pstree ip ifconfig"
_MAY_LIST = regex(rf"\b(?:{_LISTERS.replace(' ', '|')})\b")
_COMPLAINTS: Mapping[str, str] = {
    "git": r"(?:error|fatal|gpg): [^\n]*|Host key verification failed[^\n]*|\S+: Permission denied \(publickey[^\n]*",
    "ssh": r"Host key verification failed[^\n]*|\S+: Permission denied \(publickey[^\n]*",
    "docker": r"(?i:error: |error )?(?:Cannot connect to the Docker daemon|permission denied while [^\n]*docker)[^\n]*",
    "podman": r"(?i:error: )?Cannot connect to Podman[^\n]*",
}
"""Complaints of a program, as whole lines, that do not start with its name."""
_SAME = {"scp": "ssh", "sftp": "ssh", "rsync": "ssh", "docker-compose": "docker"}
_MAY_COMPLAIN = regex(
    "|".join(each.pattern for each in (_NETWORK, _SERVERS, _DOCKER, _SUDO, _OWNERS, _SSH, _SIGNING_FAILED, _NAMESPACES))
)
_NOT_PUT_UP = regex(r"bwrap: (?:Can't|Unable to) [^\n]*\n?")
_VAGUE = "it may write only in the working folder and in /tmp"
_PLACE = regex(r"/(?:[^:\n\"]+)")


def what_is_not_seen(command: str) -> str:
    """Return what a command that looks for other programs cannot see, in a few words. Empty for other commands."""
    if not _MAY_LIST.search(command):
        return ""
    from ebbtide.tools.commands.nested import program_of, readings  # noqa: PLC0415  # deferred: rarely needed

    names = _LISTERS.split()
    if not any(program_of(words) in names for words in readings(command)):
        return ""
    return "it sees only this session's own processes, ports and network"


def was_overtaken(printed: str, is_there: Callable[[str], bool]) -> bool:
    """Whether the sandbox could not be set up, and no command was run, because a path to be mounted disappeared, such
    as another program's socket."""
    if not _NOT_PUT_UP.fullmatch(printed):
        return False
    named = (path.removeprefix("/newroot").removeprefix("/oldroot") for path in _PLACE.findall(printed))
    return not all(map(is_there, named))


def may_have_been_blocked(printed: str) -> bool:
    """Whether a successful command printed something that suggests blocking."""
    return _UNWRITABLE.search(printed) is not None or _MAY_COMPLAIN.search(printed) is not None


def _complaints(command: str, printed: str) -> str:
    """Return the lines in which programs of the command report errors themselves."""
    from ebbtide.tools.commands.nested import program_of, readings  # noqa: PLC0415  # deferred: few commands complain

    names = {program_of(words) for words in readings(command)} - {""}
    kinds = filter(None, (_COMPLAINTS.get(_SAME.get(name, name), "") for name in sorted(names)))
    named = (rf"{re.escape(name)}: [^\n]*" for name in sorted(names))
    return "\n".join(re.findall(rf"^(?:{'|'.join((*named, *kinds))})$", printed, re.MULTILINE)) if names else ""


def denied_paths(
    command: str,
    printed: str,
    boundary: Boundary,
    folder: str,
    is_outside: Callable[[str], bool],
    *,
    failed: bool = True,
) -> str:
    """Return what a command could not access, in a few words; empty if nothing suggests blocking. `is_outside`: whether
    a file exists outside the sandbox. `failed`: whether the command failed. If not, only complaints of its own programs
    count, and named files that it may not write, since other text may come from a file that it printed."""
    if not failed:
        lines = _UNWRITABLE.finditer(printed) if boundary.kind == "bubblewrap" else ()
        refusals = filter(None, (_refusal_of(line, boundary, folder) for line in lines))
        told = (found for found in _find_denials(_complaints(command, printed), boundary, folder) if found != _VAGUE)
        return next(refusals, "") or "; ".join(dict.fromkeys(told))
    found = dict.fromkeys(_find_denials(printed, boundary, folder))
    if boundary.kind == "bubblewrap" and (missing := next(filter(is_outside, _missing_in_tmp(printed)), "")):
        found[f"/tmp is private to the session, so it cannot see `{missing}`"] = None
    return "; ".join(found)


def _missing_in_tmp(printed: str) -> Iterator[str]:
    lines = (line for line in printed.splitlines() if "No such file or directory" in line)
    return (path for line in lines for path in _PATH.findall(line[:_MAX_LINE_CHARS]) if path.startswith("/tmp/"))


def _refusal_of(match: Match[str], boundary: Boundary, folder: str) -> str:
    """Return the path whose modification a line reports as denied, in a few words; empty if the sandbox does not
    explain it."""
    named = [*_PATH.findall(match[2])[:1], *reversed(_PATH.findall(match[1]))]  # nearest first
    paths = [normpath(join(folder, name)) for name in named]
    if path := next((path for path in paths if boundary.access_to(path) != "write"), ""):
        return f"it may not write `{path}`"
    protected = [place for place, access in boundary.places.items() if access != "write"]
    path = next((path for path in paths if any(place.startswith(f"{path}/") for place in protected)), "")
    return f"it may not remove or rename `{path}`, which holds protected files" if path and _BUSY in match[0] else ""


def _find_denials(printed: str, boundary: Boundary, folder: str) -> Iterator[str]:
    if printed.startswith(("bwrap: ", "sandbox: ")):
        yield f"the sandbox could not be set up ({printed.partition(': ')[2][:200].splitlines()[0]})"
        return
    for match in (_UNWRITABLE if boundary.kind == "bubblewrap" else _PERMISSION_DENIED).finditer(printed):
        yield _refusal_of(match, boundary, folder) or _VAGUE
        break
    if _GIT_ELSEWHERE.search(printed):
        yield _VAGUE
    if boundary.network != "open" and _NETWORK.search(printed):
        yield "it has no network" if boundary.network == "none" else "only programs that use `HTTPS_PROXY` have network"
    elif boundary.network != "open" and _SERVERS.search(printed):
        yield "it can reach only those servers on this machine that commands of this session started"
    if _DOCKER.search(printed):
        yield "it cannot reach Docker or Podman"
    if _SUDO.search(printed):
        yield "it cannot become another user"
    if _OWNERS.search(printed):
        yield "it cannot give files to other users"
    if _SSH.search(printed):
        yield "it cannot see SSH keys and agents"
    if _SIGNING_FAILED.search(printed):
        yield "it cannot see signing keys"
    if _DEVICES.search(printed):
        yield "it cannot use devices of this machine"
    if boundary.kind == "bubblewrap" and _TWO_FOLDERS.search(printed):
        yield "files cannot be linked between /tmp, which is a folder of its own, and other folders"
    if _NAMESPACES.search(printed):
        yield "it may not create namespaces or mount anything"
    if (
        cut := [path for path, copy in boundary.copies.items() if not copy.is_whole]
        if _NO_LOGIN.search(printed)
        else []
    ):
        yield f"it sees `{cut[0]}` without the passwords and tokens in it"
    for path, access in boundary.places.items():
        if access.startswith("hidden") and path in printed and path not in boundary.copies:
            yield f"it cannot see `{path}`"
            break
