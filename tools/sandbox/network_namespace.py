"""A network namespace for the commands of a session. It contains only a loopback device and one socket on which this
process listens. Linux with bubblewrap only."""

import array
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.sandbox.bubblewrap import SYSTEM_MOUNTS, UNSHARE_FLAGS
from ebbtide.tools.sandbox.system import NoSandbox, SandboxProgram, detect_sandbox

_NSENTER_PATHS = ("/usr/bin/nsenter", "/bin/nsenter", "/run/current-system/sw/bin/nsenter")
"""Where to look for nsenter. Only an administrator can change these paths."""
_TRIAL_TIMEOUT_S = 5.0
_BACKLOG = 128
_CREATE_SCRIPT = """
import array, os, socket, sys
ours = socket.socket(fileno=int(sys.argv[1]))
listener = socket.socket()
listener.bind(("0.0.0.0", 0))
listener.listen(int(sys.argv[2]))
held = [listener.fileno(), *(os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("user", "net"))]
ours.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", held))])
"""
"""Creates the socket inside the namespace, and passes it out together with the namespaces' descriptors. No process has
to stay inside."""


class NamespaceUnavailableError(Exception):
    """Raised if no namespace can be created on this system. The message says why."""


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """A network namespace. It exists as long as one of these descriptors is open."""

    listener: socket.socket
    user_descriptor: int
    network_descriptor: int
    nsenter_path: str

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def nsenter_command(self, argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Return the command that runs `argv` inside the namespace, and the descriptors that it must inherit. The
        caller must close these."""
        user, network = os.dup(self.user_descriptor), os.dup(self.network_descriptor)
        namespace_flags = (f"--user=/proc/self/fd/{user}", f"--net=/proc/self/fd/{network}")
        return (self.nsenter_path, *namespace_flags, "--preserve-credentials", "--", *argv), (user, network)

    def close(self) -> None:
        self.listener.close()
        os.close(self.user_descriptor)
        os.close(self.network_descriptor)


def create_namespace() -> NetworkNamespace:
    """Create a namespace and test it, which takes about 40 ms. Raises `NamespaceUnavailableError`."""
    namespace = _create_namespace()
    if error := _test_entering(namespace):
        namespace.close()
        raise NamespaceUnavailableError(f"a network namespace cannot be entered: {error}")
    return namespace


@cache
def namespace_problem() -> str:
    """Explain why this system cannot create a namespace. Empty if a test succeeded."""
    try:
        create_namespace().close()
    except NamespaceUnavailableError as error:
        return str(error)
    return ""


def _test_entering(namespace: NetworkNamespace) -> str:
    """Try to enter the namespace, and return the error message if that fails."""
    detected = detect_sandbox()
    assert isinstance(detected, SandboxProgram)
    argv, descriptors = namespace.nsenter_command(
        (*detected.full_argv, *UNSHARE_FLAGS, "--as-pid-1", *SYSTEM_MOUNTS, "--", "/bin/sh", "-c", ":")
    )
    try:
        result = subprocess.run(
            argv,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TRIAL_TIMEOUT_S,
            check=False,
            pass_fds=descriptors,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    problem = result.stderr.decode(errors="replace").strip().split("\n")[0][:200]
    return "" if result.returncode == 0 else problem or f"exit code {result.returncode}"


def _create_namespace() -> NetworkNamespace:
    detected = detect_sandbox()
    if isinstance(detected, NoSandbox):
        raise NamespaceUnavailableError(detected.problem)
    if detected.kind != "bubblewrap":
        raise NamespaceUnavailableError(f"{detected.kind} cannot restrict access to individual hosts")
    nsenter_path = next((path for path in _NSENTER_PATHS if os.access(path, os.X_OK)), None)
    if nsenter_path is None:
        raise NamespaceUnavailableError("`nsenter` of util-linux is not installed")
    own_socket, child_socket = socket.socketpair()
    with own_socket, child_socket:
        python = (
            os.path.realpath(sys.executable),
            "-I",
            "-S",
            "-c",
            _CREATE_SCRIPT,
            str(child_socket.fileno()),
            str(_BACKLOG),
        )
        flags = ("--unshare-user", "--unshare-net", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--")
        try:
            result = subprocess.run(
                (detected.argv[0], *flags, *python),
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_TIMEOUT_S,
                check=False,
                pass_fds=(child_socket.fileno(),),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NamespaceUnavailableError(f"a network namespace cannot be created: {error}") from error
        if result.returncode:
            problem = result.stderr.decode(errors="replace").strip().split("\n")[-1][:200]
            raise NamespaceUnavailableError(f"a network namespace cannot be created: {problem or result.returncode}")
        own_socket.setblocking(False)
        _, [(_, _, data), *_], *_ = own_socket.recvmsg(1, socket.CMSG_SPACE(12), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i", data)
    listener = socket.socket(fileno=descriptors[0])
    listener.setblocking(False)
    return NetworkNamespace(listener, descriptors[1], descriptors[2], nsenter_path)
