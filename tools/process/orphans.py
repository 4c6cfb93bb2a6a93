"""Reaps orphaned processes if no init process does.

Bubblewrap's first process ends with the command. Its second process, which is process 1 of the sandbox, ends a moment
later. It stays a zombie until the nearest subreaper or the system's process 1 waits for it. In a container without an
init process, that never happens.
"""

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread

_PR_SET_CHILD_SUBREAPER = 36
_REAPING_INIT_PROGRAMS = frozenset(
    """
    systemd init tini tini-static docker-init podman-init dumb-init catatonit s6-svscan runit finit pause launchd
    """.split()  # noqa: SIM905  # as for the list in `ebbtide.tools.process.shell`
)
"""Programs that reap orphans when they run as process 1."""


@cache
def adopt_orphans() -> None:
    """On Linux, make this process the subreaper of all processes that it starts. Does nothing if process 1 is known to
    reap orphans: process 1 then takes care of detached processes."""
    if sys.platform != "linux" or os.getpid() == 1 or _init_name() in _REAPING_INIT_PROGRAMS:
        return
    import ctypes  # noqa: PLC0415  # deferred: only needed when something is started

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(group: int) -> None:
    """Wait for all orphans of a process group. This process must have started the group's leader and waited for it.
    Returns at once if there are no orphans. Children in other groups are left to the code that waits for them."""
    with suppress(ChildProcessError):  # no orphans remain
        while True:
            os.waitpid(-group, 0)


def reap_orphans_in_background(group: int) -> None:
    """Like `reap_orphans`, but in a thread, because an orphan may run for hours."""
    Thread(target=reap_orphans, args=(group,), daemon=True).start()


def _init_name() -> str:
    """Return the name of process 1, if known."""
    try:
        return Path("/proc/1/comm").read_text().rstrip("\n")
    except OSError:
        return ""
