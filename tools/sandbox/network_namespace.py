"""A network namespace for the commands of a session. It contains only its loopback device, and one socket that this
process listens on. Linux with bubblewrap only."""

import array
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.bubblewrap import NAMESPACES, SYSTEM
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, found_sandbox

_ENTERS = ("/usr/bin/nsenter", "/bin/nsenter", "/run/current-system/sw/bin/nsenter")
"""Places that only an administrator can change."""
_TRIAL_TIMEOUT_S = 5.0
_BACKLOG = 128
_MADE_BY = """
import array, os, socket, sys
ours = socket.socket(fileno=int(sys.argv[1]))
listener = socket.socket()
listener.bind(("0.0.0.0", 0))
listener.listen(int(sys.argv[2]))
held = [listener.fileno(), *(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "net"))]
ours.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", held))])
"""
"""Creates the socket inside and passes it out, with descriptors of the namespaces, so that no process has to stay
there."""


class NoNamespace(Exception):
    """No namespace can be created here, as the message says."""


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """The namespace exists as long as any of these descriptors is open."""

    listener: socket.socket
    user: int
    network: int
    enters: str

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def nsenter_command(self, argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the command that runs bubblewrap inside, and the descriptors that it must inherit, which belong to the
        caller."""
        user, network = os.dup(self.user), os.dup(self.network)
        ways = (f"--user=/proc/self/fd/{user}", f"--net=/proc/self/fd/{network}")
        return (self.enters, *ways, "--preserve-credentials", "--", *argv), (user, network)

    def close(self) -> None:
        self.listener.close()
        os.close(self.user)
        os.close(self.network)


def new_namespace() -> NetworkNamespace:
    """Create a namespace and test it, which takes about 40 ms. Raises `NoNamespace`."""
    made = _make_namespace()
    if why := _trial(made):
        made.close()
        raise NoNamespace(f"a network namespace cannot be entered: {why}")
    return made


@cache
def why_no_namespace() -> str:
    """Return what is missing here, or an empty string if a test succeeded."""
    try:
        new_namespace().close()
    except NoNamespace as error:
        return str(error)
    return ""


def _trial(made: NetworkNamespace) -> str:
    """Return the error if it cannot be entered, or an empty string."""
    found = found_sandbox()
    assert isinstance(found, SandboxProgram)
    line, held = made.nsenter_command((*found.line, *NAMESPACES, "--as-pid-1", *SYSTEM, "--", "/bin/sh", "-c", ":"))
    try:
        ran = subprocess.run(
            line,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
            pass_fds=held,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        for each in held:
            os.close(each)
    said = ran.stderr.decode(errors="replace").strip().split("\n")[0][:200]
    return "" if ran.returncode == 0 else said or f"exit code {ran.returncode}"


def _make_namespace() -> NetworkNamespace:
    found = found_sandbox()
    if isinstance(found, NoSandbox):
        raise NoNamespace(found.why)
    if found.kind != "bubblewrap":
        raise NoNamespace(f"{found.kind} cannot restrict access to single hosts")
    enters = next((path for path in _ENTERS if os.access(path, os.X_OK)), None)
    if enters is None:
        raise NoNamespace("`nsenter` of util-linux is not installed")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        python = (os.path.realpath(sys.executable), "-I", "-S", "-c", _MADE_BY, str(theirs.fileno()), str(_BACKLOG))
        flags = ("--unshare-user", "--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--")
        try:
            ran = subprocess.run(
                (found.argv[0], *flags, *python),
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
                pass_fds=(theirs.fileno(),),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoNamespace(f"a network namespace cannot be created: {error}") from error
        if ran.returncode:
            said = ran.stderr.decode(errors="replace").strip().split("\n")[-1][:200]
            raise NoNamespace(f"a network namespace cannot be created: {said or ran.returncode}")
        ours.setblocking(False)
        _, [(_, _, data), *_], *_ = ours.recvmsg(1, socket.CMSG_SPACE(12), socket.MSG_CMSG_CLOEXEC)
    held = array.array("i", data)
    listener = socket.socket(fileno=held[0])
    listener.setblocking(False)
    return NetworkNamespace(listener, held[1], held[2], enters)
