"""Protects this process from the programs that it starts: no other process of the user can read its memory or
environment."""

import os
import re
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
_API_KEY_NAME = re.compile(rb"API_?KEY", re.IGNORECASE)
"""Matches names of variables with API keys."""
DEBUGGABLE_VARIABLE = "EBB_DEBUGGABLE"
"""Environment variable that disables this protection, so that the user's debuggers and profilers work."""


@cache
def protect_own_memory() -> None:
    """On Linux, block `/proc/PID/environ`, `/proc/PID/mem` and debuggers before the first program is started. Also
    erase API keys from this process's environment block, so that administrators cannot read them there. `os.environ`
    keeps them."""
    if sys.platform != "linux" or os.environ.get(DEBUGGABLE_VARIABLE):
        return
    import ctypes  # noqa: PLC0415  # deferred: only needed when something is started

    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    environ_pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")
    index = 0
    while environ_pointers and (address := environ_pointers[index]):
        name, _, value = ctypes.string_at(address).partition(b"=")
        if _API_KEY_NAME.search(name):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        index += 1
