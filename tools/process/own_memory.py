"""This process against what it starts: no other process of the user's may look into it or its environment."""

import os
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
DEBUGGABLE = "EBB_DEBUGGABLE"
"""Set in the environment, it leaves debuggers and profilers of the user a way in."""


@cache
def close_own_memory() -> None:
    """Shuts `/proc/PID/environ`, `/proc/PID/mem` and debuggers out, on Linux, before the first program is started."""
    if sys.platform != "linux" or os.environ.get(DEBUGGABLE):
        return
    import ctypes  # noqa: PLC0415  # deferred: runs that start nothing load it for nothing

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
