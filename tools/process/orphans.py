"""Reaps orphaned processes where no init process does.

Bubblewrap's first process ends with the command. Its second one, process 1 of the sandbox, ends a moment later, and
stays a zombie until the nearest subreaper or the system's process 1 waits for it. In a container without an init
process, nothing does.
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
    """.split()  # noqa: SIM905  # as for the list in `ebbtide.tools.process.shell`
)
"""Programs that reap orphans when they are process 1."""


@cache
def adopt_orphans() -> None:
    """Make this process the subreaper of what it starts, on Linux, unless process 1 is known to reap orphans: processes
    that detach are better left to that one."""
    if sys.platform != "linux" or os.getpid() == 1 or _first_process() in _INITS:
        return
    import ctypes  # noqa: PLC0415  # deferred: only needed when something is started

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(group: int) -> None:
    """Wait for every orphan of a process group whose leader was started and waited for by this process. Returns at once
    if there are none. Children in other groups are left to the code that waits for them."""
    with suppress(ChildProcessError):  # none left
        while True:
            os.waitpid(-group, 0)


def reap_orphans_in_background(group: int) -> None:
    """Like `reap_orphans`, in a thread, since an orphan may run for hours."""
    Thread(target=reap_orphans, args=(group,), daemon=True).start()


def _first_process() -> str:
    """Return the name of process 1, or an empty string if it is unknown."""
    try:
        return Path("/proc/1/comm").read_text().rstrip("\n")
    except OSError:
        return ""
