"""Protects this process from what it starts: no other process of the user may read its memory or environment."""

import os
import re
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
_KEY = re.compile(rb"API_?KEY", re.IGNORECASE)
"""Matches names of variables with API keys."""
DEBUGGABLE = "EBB_DEBUGGABLE"
"""If set in the environment, debuggers and profilers of the user are still allowed."""


@cache
def close_own_memory() -> None:
    """Block `/proc/PID/environ`, `/proc/PID/mem` and debuggers on Linux, before the first program is started. API keys
    are also erased from the environment block of this process, against administrators. `os.environ` still has them."""
    if sys.platform != "linux" or os.environ.get(DEBUGGABLE):
        return
    import ctypes  # noqa: PLC0415  # deferred: only needed when something is started

    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")
    number = 0
    while block and (address := block[number]):
        name, _, value = ctypes.string_at(address).partition(b"=")
        if _KEY.search(name):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        number += 1
