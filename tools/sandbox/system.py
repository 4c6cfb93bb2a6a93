"""Detects which sandbox this system supports, once."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import SandboxKind, SandboxState
from ebbtide.tools.sandbox.bubblewrap import NAMESPACES, NO_MORE_NAMESPACES, SYSTEM
from ebbtide.tools.sandbox.seatbelt import PROGRAM as SEATBELT

if TYPE_CHECKING:  # types only, as the filter is made when a command runs
    from ebbtide.tools.sandbox.system_calls import Sockets

_BUBBLEWRAP = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Places that only an administrator can change. PATH may include a working folder."""
_UNSHARE = ("/usr/bin/unshare", "/bin/unshare", "/run/current-system/sw/bin/unshare")
_KEEPS_MOUNTS_AWAY = ("--user", "--map-current-user", "--mount", "--propagation", "private", "--")
_NOTHING = ("/bin/sh", "-c", ":")
_TRIAL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class SandboxProgram:
    """The program that enforces the boundary here."""

    kind: SandboxKind
    argv: tuple[str, ...]
    note: str = ""
    """A limitation that the user should know of."""
    before: tuple[str, ...] = ()
    """A prefix that keeps mounts made outside during a command out of the sandbox. Bubblewrap alone would let them in,
    writable."""

    @property
    def line(self) -> tuple[str, ...]:
        return (*self.before, *self.argv)


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """No sandbox is available."""

    why: str


@cache
def found_sandbox() -> SandboxProgram | NoSandbox:
    """Return the sandbox that works here, determined by a test of about 10 ms."""
    if sys.platform == "darwin":
        is_there = os.access(SEATBELT, os.X_OK)
        return SandboxProgram("seatbelt", ()) if is_there else NoSandbox(f"there is no `{SEATBELT}`")
    if sys.platform != "linux":
        return NoSandbox("there is none for this system")
    found = _found_bubblewrap()
    if isinstance(found, NoSandbox) and not trial_of_landlock():
        return SandboxProgram("landlock", (), f"it restricts less than bubblewrap: {found.why}")
    return found


def _found_bubblewrap() -> SandboxProgram | NoSandbox:
    path = next((path for path in _BUBBLEWRAP if os.access(path, os.X_OK)), None)
    if path is None:
        return NoSandbox("bubblewrap is not installed (`apt install bubblewrap`, `dnf install bubblewrap`)")
    calls = _known_filter("network")
    if isinstance(calls, NoSandbox):
        return calls
    why, said = "`unshare` of util-linux is not installed", ""
    for before in dict.fromkeys((_private_mounts(), ())):
        for flags in ((NO_MORE_NAMESPACES,), ()):
            held = readable(calls)
            tried = (*before, path, *flags, *NAMESPACES, "--as-pid-1", "--unshare-net", "--seccomp", str(held), *SYSTEM)
            said = _trial((*tried, "--", *_NOTHING), held)
            if not said:
                note = "" if before else f"what is mounted while a command runs is writable for it: {why}"
                return SandboxProgram("bubblewrap", (path, *flags), note, before)
        why = said
    return NoSandbox(f"bubblewrap cannot work here: {said}")


def _private_mounts() -> tuple[str, ...]:
    path = next((path for path in _UNSHARE if os.access(path, os.X_OK)), None)
    return (path, *_KEEPS_MOUNTS_AWAY) if path is not None else ()


def known_kind() -> SandboxState | None:
    """Return the kind of sandbox, or None if it has not been determined yet."""
    return sandbox_kind() if found_sandbox.cache_info().currsize else None


def sandbox_kind() -> SandboxState:
    """Return the kind of sandbox."""
    found = found_sandbox()
    return "none" if isinstance(found, NoSandbox) else found.kind


def trial_of_landlock() -> str:
    """Return why Landlock does not work here, or an empty string."""
    from ebbtide.tools.sandbox.landlock import command_line, ruleset_of  # noqa: PLC0415  # deferred: rarely needed

    calls = _known_filter("none")
    if isinstance(calls, NoSandbox):
        return calls.why
    try:
        ruleset = ruleset_of({}, "/tmp")
    except OSError as error:
        return str(error)
    return _trial(command_line(ruleset, calls, _NOTHING), ruleset)


def _known_filter(sockets: "Sockets") -> bytes | NoSandbox:
    from ebbtide.tools.sandbox.system_calls import system_call_filter  # noqa: PLC0415  # deferred: only for commands

    machine = os.uname().machine
    return system_call_filter(machine, sockets) or NoSandbox(f"the system calls of {machine} are unknown")


def _trial(command: Sequence[str], descriptor: int) -> str:
    """Return the error if the command fails, or an empty string. The descriptor is passed to it and closed."""
    try:
        with suppress(OSError, subprocess.TimeoutExpired):
            ran = subprocess.run(
                command,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
                pass_fds=(descriptor,),
            )
            said = ran.stderr.decode(errors="replace").strip().split("\n")[0].partition(". See ")[0][:200]
            return "" if ran.returncode == 0 else said or f"exit code {ran.returncode}"
        return "it did not answer"
    finally:
        os.close(descriptor)


def readable(data: bytes) -> int:
    """Return a descriptor from which the bytes can be read, up to the capacity of a pipe."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
