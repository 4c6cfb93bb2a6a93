"""Infers from a failed command's output what the sandbox probably blocked. No I/O."""

import re
from collections.abc import Callable, Iterator, Mapping
from os.path import join, normpath
from re import Match

from ebbtide.tools import commands
from ebbtide.tools.lazy import regex
from ebbtide.tools.sandbox.boundary import Boundary

_BUSY = "Device or resource busy"
_UNWRITABLE = regex(rf"([^\n]{{0,400}})(?:Read-only file system|EROFS|{_BUSY})([^\n]{{0,400}})")
_PERMISSION_DENIED = regex(r"([^\n]{0,400})(?:Permission denied|EACCES|Operation not permitted)([^\n]{0,400})")
"""Matches error messages that appear when Landlock or the macOS sandbox blocks something."""
_PATH = regex(r"[^\s'\"`:;,()<>\[\]’‘]*/[^\s'\"`:;,()<>\[\]’‘]*")
_NETWORK_ERRORS = regex(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known|nodename nor servname"
    r"|Network is unreachable|ENETUNREACH|EAI_AGAIN|getaddrinfo|No address associated with hostname|ENOTFOUND"
    r"|failed to lookup address|dial tcp: lookup|Could not connect to server"
)
_LOOPBACK = r"(?:localhost|127\.0\.0\.1|\[::1\]|::1:)"
_CONNECTION_REFUSED = r"(?:refused|ECONNREFUSED|ould ?n[o']t connect|Failed to connect|Can't connect)"
_LOCAL_SERVER_REFUSED = regex(
    rf"{_LOOPBACK}[^\n]{{0,200}}{_CONNECTION_REFUSED}|{_CONNECTION_REFUSED}[^\n]{{0,200}}{_LOOPBACK}"
)
_MAX_LINE_CHARS = 800
"""Maximum number of characters examined in a line."""
_DOCKER_ERRORS = regex(r"docker\.sock|Cannot connect to the Docker daemon|Cannot connect to Podman|podman\.sock")
_SUDO_ERRORS = regex(
    r"no new privileges|must be setuid root|effective uid is not 0|sudo: .*(?:must be owned|unable to)"
    r"|su: (?:cannot set groups|Authentication failure|.*Operation not permitted)"
)
_CHOWN_ERRORS = regex(
    r"chown: changing ownership|chgrp: changing group|Cannot change ownership|chown\b.*\bE(?:PERM|INVAL)\b"
)
_SSH_ERRORS = regex(
    r"Host key verification failed|Permission denied \(publickey|Could not open a connection to your auth"
)
_SIGNING_FAILED = regex(r"gpg failed to sign|No secret key|Couldn't load public key")
_LOGIN_REQUIRED = regex(r"\bE40[13]\b|\bENEEDAUTH\b|\bcode E404\b|\bYN0041\b|\bERR_PNPM_FETCH_40[134]\b")
"""Matches error messages with which package managers report that a registry requires a login."""
_DEVICE_PATHS = regex(r"/dev/(?:dri|nvidia\w*|kvm|fuse|kfd|snd|video\d*|tty(?:USB|ACM)\d+)\b")
_CROSS_DEVICE_ERRORS = regex(r"Invalid cross-device link|EXDEV")
_NAMESPACE_ERRORS = regex(
    r"unshare failed|clone.*Operation not permitted|No usable sandbox|mount: .*(?:denied|permitted)"
)


_GIT_PUSH_FAILED = regex(
    r"unable to create temporary object directory|insufficient permission for adding an object to repository database"
)
"""Matches Git's error messages when a push to a local repository fails. They do not name the repository."""
_LISTING_PROGRAMS = "ps pgrep pkill pidof killall lsof fuser ss netstat top htop pstree ip ifconfig"
_LISTING_PROGRAM_WORD = regex(rf"\b(?:{_LISTING_PROGRAMS.replace(' ', '|')})\b")
_ERROR_LINE_PATTERNS: Mapping[str, str] = {
    "git": r"(?:error|fatal|gpg): [^\n]*|Host key verification failed[^\n]*|\S+: Permission denied \(publickey[^\n]*",
    "ssh": r"Host key verification failed[^\n]*|\S+: Permission denied \(publickey[^\n]*",
    "docker": r"(?i:error: |error )?(?:Cannot connect to the Docker daemon|permission denied while [^\n]*docker)[^\n]*",
    "podman": r"(?i:error: )?Cannot connect to Podman[^\n]*",
}
"""Patterns of complete error lines that do not start with the program's name."""
_ERROR_STYLE_ALIASES = {"scp": "ssh", "sftp": "ssh", "rsync": "ssh", "docker-compose": "docker"}
_ANY_BLOCKED_ERROR = regex(
    "|".join(
        errors.pattern
        for errors in (
            _NETWORK_ERRORS,
            _LOCAL_SERVER_REFUSED,
            _DOCKER_ERRORS,
            _SUDO_ERRORS,
            _CHOWN_ERRORS,
            _SSH_ERRORS,
            _SIGNING_FAILED,
            _NAMESPACE_ERRORS,
        )
    )
)
_SETUP_FAILED = regex(r"bwrap: (?:Can't|Unable to) [^\n]*\n?")
_UNSPECIFIC_WRITE_DENIAL = "it may write only in the working folder and in /tmp"
_BUBBLEWRAP_PATH = regex(r"/(?:[^:\n\"]+)")


def visibility_note(command: str) -> str:
    """For a command that lists processes, ports or networks, say in a few words what it cannot see. Empty for other
    commands."""
    if not _LISTING_PROGRAM_WORD.search(command):
        return ""
    names = _LISTING_PROGRAMS.split()
    if not any(commands.nested.program_name(words) in names for words in commands.nested.command_variants(command)):
        return ""
    return "it sees only this session's own processes, ports and network"


def did_mount_path_vanish(output: str, exists: Callable[[str], bool]) -> bool:
    """Whether the sandbox could not be set up because a path to mount disappeared, such as another program's socket. In
    that case, the command has not run."""
    if not _SETUP_FAILED.fullmatch(output):
        return False
    mount_paths = (path.removeprefix("/newroot").removeprefix("/oldroot") for path in _BUBBLEWRAP_PATH.findall(output))
    return not all(map(exists, mount_paths))


def may_have_been_blocked(output: str) -> bool:
    """Whether the output of a successful command suggests that the sandbox blocked something."""
    return _UNWRITABLE.search(output) is not None or _ANY_BLOCKED_ERROR.search(output) is not None


def _own_error_lines(command: str, output: str) -> str:
    """Return the output lines in which the command's own programs report errors."""
    names = {commands.nested.program_name(words) for words in commands.nested.command_variants(command)} - {""}
    special_patterns = filter(
        None, (_ERROR_LINE_PATTERNS.get(_ERROR_STYLE_ALIASES.get(name, name), "") for name in sorted(names))
    )
    prefix_patterns = (rf"{re.escape(name)}: [^\n]*" for name in sorted(names))
    return (
        "\n".join(re.findall(rf"^(?:{'|'.join((*prefix_patterns, *special_patterns))})$", output, re.MULTILINE))
        if names
        else ""
    )


def describe_denial(
    command: str,
    output: str,
    boundary: Boundary,
    folder: str,
    exists_outside: Callable[[str], bool],
    *,
    has_failed: bool = True,
) -> str:
    """Say in a few words what the sandbox denied to a command. Empty if the output does not suggest that anything was
    blocked. `exists_outside`: whether a file exists outside the sandbox. `has_failed`: whether the command failed.

    If the command succeeded, other text in its output may come from a file that it printed. Then only two things count:
    errors from the command's own programs, and denied writes to files named in the output.
    """
    if not has_failed:
        matches = _UNWRITABLE.finditer(output) if boundary.kind == "bubblewrap" else ()
        write_denials = filter(None, (_write_denial(match, boundary, folder) for match in matches))
        denials = (
            reason
            for reason in _find_denials(_own_error_lines(command, output), boundary, folder)
            if reason != _UNSPECIFIC_WRITE_DENIAL
        )
        return next(write_denials, "") or "; ".join(dict.fromkeys(denials))
    reasons = dict.fromkeys(_find_denials(output, boundary, folder))
    if boundary.kind == "bubblewrap" and (missing := next(filter(exists_outside, _missing_in_tmp(output)), "")):
        reasons[f"/tmp is private to the session, so it cannot see `{missing}`"] = None
    return "; ".join(reasons)


def _missing_in_tmp(output: str) -> Iterator[str]:
    lines = (line for line in output.splitlines() if "No such file or directory" in line)
    return (path for line in lines for path in _PATH.findall(line[:_MAX_LINE_CHARS]) if path.startswith("/tmp/"))


def _write_denial(match: Match[str], boundary: Boundary, folder: str) -> str:
    """If an error line says that a path is not writable, say in a few words that writing to it was denied. Empty if the
    sandbox allows writing to it."""
    path_texts = [*_PATH.findall(match[2])[:1], *reversed(_PATH.findall(match[1]))]  # nearest to the message first
    paths = [normpath(join(folder, name)) for name in path_texts]
    if path := next((path for path in paths if boundary.access_to(path) != "write"), ""):
        return f"it may not write `{path}`"
    protected_paths = [protected for protected, access in boundary.access_by_path.items() if access != "write"]
    path = next((path for path in paths if any(protected.startswith(f"{path}/") for protected in protected_paths)), "")
    return f"it may not remove or rename `{path}`, which contains protected files" if path and _BUSY in match[0] else ""


def _find_denials(output: str, boundary: Boundary, folder: str) -> Iterator[str]:
    if output.startswith(("bwrap: ", "sandbox: ")):
        yield f"the sandbox could not be set up ({output.partition(': ')[2][:200].splitlines()[0]})"
        return
    for match in (_UNWRITABLE if boundary.kind == "bubblewrap" else _PERMISSION_DENIED).finditer(output):
        yield _write_denial(match, boundary, folder) or (
            "it may not write" if boundary.is_read_only else _UNSPECIFIC_WRITE_DENIAL
        )
        break
    if _GIT_PUSH_FAILED.search(output):
        yield _UNSPECIFIC_WRITE_DENIAL
    if boundary.network != "open" and _NETWORK_ERRORS.search(output):
        yield "it has no network" if boundary.network == "none" else "only programs that use `HTTPS_PROXY` have network"
    elif boundary.network != "open" and _LOCAL_SERVER_REFUSED.search(output):
        yield "it can reach only those servers on this machine that commands of this session started"
    if _DOCKER_ERRORS.search(output):
        yield "it cannot reach Docker or Podman"
    if _SUDO_ERRORS.search(output):
        yield "it cannot become another user"
    if _CHOWN_ERRORS.search(output):
        yield "it cannot give files to other users"
    if _SSH_ERRORS.search(output):
        yield "it cannot see SSH keys and agents"
    if _SIGNING_FAILED.search(output):
        yield "it cannot see signing keys"
    if _DEVICE_PATHS.search(output):
        yield "it cannot use devices of this machine"
    if boundary.kind == "bubblewrap" and _CROSS_DEVICE_ERRORS.search(output):
        yield "files cannot be linked between /tmp, which is a separate mount, and other folders"
    if _NAMESPACE_ERRORS.search(output):
        yield "it may not create namespaces or mount anything"
    if (
        redacted_paths := [path for path, copy in boundary.settings_copies.items() if not copy.is_complete]
        if _LOGIN_REQUIRED.search(output)
        else []
    ):
        yield f"it sees `{redacted_paths[0]}` without the passwords or tokens in it"
    for path, access in boundary.access_by_path.items():
        if access.startswith("hidden") and path != "/" and path in output and path not in boundary.settings_copies:
            yield f"it cannot see `{path}`"
            break
