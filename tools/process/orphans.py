"""Processes whose parent has ended: reaped here where no init process does it.

Bubblewrap's first process ends with the command. Its second one, number 1 of the sandbox, ends a moment later, and then
stays a zombie until the nearest subreaper, or process 1, has waited for it. In a container without an init nobody does.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread

_PR_SET_CHILD_SUBREAPER = 36
_INITS = frozenset(
    """
    systemd init tini tini-static docker-init podman-init dumb-init catatonit s6-svscan runit finit pause launchd
    """.split()  # noqa: SIM905  # as the list of names in `ebbtide.tools.process.shell`
)
"""Names of programs that reap whatever they are given, when they are process 1."""


@cache
def adopt_orphans() -> None:
    """Make this process the subreaper of what it starts, on Linux, unless process 1 is known to reap orphans: what
    detaches itself from a program is better left to that one."""
    if sys.platform != "linux" or os.getpid() == 1 or _first_process() in _INITS:
        return
    import ctypes  # noqa: PLC0415  # deferred: runs that start nothing load it for nothing

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(group: int) -> None:
    """Wait for every orphan of a process group, whose leader this process started and has waited for. Returns at once
    where this process was given none. Children in other groups are not touched: other code waits for those."""
    with suppress(ChildProcessError):  # none is left
        while True:
            os.waitpid(-group, 0)


def reap_orphans_in_background(group: int) -> None:
    """The same in a thread, since an orphan may run for hours."""
    Thread(target=reap_orphans, args=(group,), daemon=True).start()


def _first_process() -> str:
    """The name of process 1; nothing where the system does not say."""
    try:
        return Path("/proc/1/comm").read_text().rstrip("\n")
    except OSError:
        return ""
