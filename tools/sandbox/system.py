"""Detects which sandbox this system supports. The result is cached."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from ebbtide.tools import sandbox
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.boundary import SandboxKind, SandboxState
from ebbtide.tools.sandbox.bubblewrap import DISABLE_USERNS_FLAG, SYSTEM_MOUNTS, UNSHARE_FLAGS
from ebbtide.tools.sandbox.seatbelt import SANDBOX_EXEC as SEATBELT

if TYPE_CHECKING:  # imported for types only: the filter is built when a command runs
    from ebbtide.tools.sandbox.system_calls import Sockets

_BUBBLEWRAP = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
"""Where to look for bubblewrap. Only an administrator can change these paths. `PATH` is not searched, because it may
include a working folder."""
_UNSHARE = ("/usr/bin/unshare", "/bin/unshare", "/run/current-system/sw/bin/unshare")
_PRIVATE_MOUNT_FLAGS = ("--user", "--map-current-user", "--mount", "--propagation", "private", "--")
_NO_OP_COMMAND = ("/bin/sh", "-c", ":")
_TRIAL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class SandboxProgram:
    """The program that enforces the boundary on this system."""

    kind: SandboxKind
    argv: tuple[str, ...]
    note: str = ""
    """A limitation that the user should know about."""
    prefix_argv: tuple[str, ...] = ()
    """A command prefix that keeps later mounts out of the sandbox. With bubblewrap alone, mounts made outside while a
    command runs would appear in the sandbox and be writable."""

    @property
    def full_argv(self) -> tuple[str, ...]:
        return (*self.prefix_argv, *self.argv)


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """No sandbox is available."""

    problem: str


@cache
def detect_sandbox() -> SandboxProgram | NoSandbox:
    """Find the sandbox that works on this system. The first call runs a test, which takes about 10 ms."""
    if sys.platform == "darwin":
        is_installed = os.access(SEATBELT, os.X_OK)
        return SandboxProgram("seatbelt", ()) if is_installed else NoSandbox(f"there is no `{SEATBELT}`")
    if sys.platform != "linux":
        return NoSandbox("there is none for this system")
    detected = _detect_bubblewrap()
    if isinstance(detected, NoSandbox) and not landlock_problem():
        return SandboxProgram("landlock", (), f"it restricts less than bubblewrap: {detected.problem}")
    return detected


def _detect_bubblewrap() -> SandboxProgram | NoSandbox:
    path = next((path for path in _BUBBLEWRAP if os.access(path, os.X_OK)), None)
    if path is None:
        return NoSandbox("bubblewrap is not installed (`apt install bubblewrap`, `dnf install bubblewrap`)")
    filter_bytes = _filter_for_machine("network")
    if isinstance(filter_bytes, NoSandbox):
        return filter_bytes
    problem, error = "`unshare` of util-linux is not installed", ""
    for prefix in dict.fromkeys((_private_mounts(), ())):
        for flags in ((DISABLE_USERNS_FLAG,), ()):
            filter_descriptor = create_readable_descriptor(filter_bytes)
            argv = (
                *prefix,
                path,
                *flags,
                *UNSHARE_FLAGS,
                "--as-pid-1",
                "--unshare-net",
                "--seccomp",
                str(filter_descriptor),
                *SYSTEM_MOUNTS,
            )
            error = _trial_error((*argv, "--", *_NO_OP_COMMAND), filter_descriptor)
            if not error:
                note = "" if prefix else f"a command can write to file systems mounted while it runs: {problem}"
                return SandboxProgram("bubblewrap", (path, *flags), note, prefix)
        problem = error
    return NoSandbox(f"bubblewrap cannot work here: {error}")


def _private_mounts() -> tuple[str, ...]:
    path = next((path for path in _UNSHARE if os.access(path, os.X_OK)), None)
    return (path, *_PRIVATE_MOUNT_FLAGS) if path is not None else ()


def detected_sandbox_kind() -> SandboxState | None:
    """Return the kind of sandbox. None if it has not been detected yet."""
    return sandbox_kind() if detect_sandbox.cache_info().currsize else None


def sandbox_kind() -> SandboxState:
    """Return the kind of sandbox. The first call tests what works."""
    detected = detect_sandbox()
    return "none" if isinstance(detected, NoSandbox) else detected.kind


def landlock_problem() -> str:
    """Explain why Landlock does not work on this system. Empty if it does."""
    filter_bytes = _filter_for_machine("none")
    if isinstance(filter_bytes, NoSandbox):
        return filter_bytes.problem
    try:
        ruleset = sandbox.landlock.create_ruleset({}, "/tmp")
    except OSError as error:
        return str(error)
    return _trial_error(sandbox.landlock.landlock_command(ruleset, filter_bytes, _NO_OP_COMMAND), ruleset)


def _filter_for_machine(sockets: "Sockets") -> bytes | NoSandbox:
    machine = os.uname().machine
    return sandbox.system_calls.build_seccomp_filter(machine, sockets) or NoSandbox(
        f"the system calls of {machine} are unknown"
    )


def _trial_error(command: Sequence[str], descriptor: int) -> str:
    """Run the command and return the error if it fails. Empty if it succeeds. The descriptor is passed to the command
    and then closed."""
    try:
        with suppress(OSError, subprocess.TimeoutExpired):
            result = subprocess.run(
                command,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
                pass_fds=(descriptor,),
            )
            error = result.stderr.decode(errors="replace").strip().split("\n")[0].partition(". See ")[0][:200]
            return "" if result.returncode == 0 else error or f"exit code {result.returncode}"
        return "it did not answer"
    finally:
        os.close(descriptor)


def create_readable_descriptor(data: bytes) -> int:
    """Create a descriptor from which the bytes can be read. They must fit into a pipe."""
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
    finally:
        os.close(writing)
    return reading
