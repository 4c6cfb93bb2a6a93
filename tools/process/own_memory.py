"""This process against what it starts: no other process of the user's may look into it or its environment."""

import os
import re
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
_KEY = re.compile(rb"API_?KEY", re.IGNORECASE)
"""In the names of variables that hold keys of providers."""
DEBUGGABLE = "EBB_DEBUGGABLE"
"""Set in the environment, it leaves debuggers and profilers of the user a way in."""


@cache
def close_own_memory() -> None:
    """Shuts `/proc/PID/environ`, `/proc/PID/mem` and debuggers out, on Linux, before the first program is started; whom
    that does not keep out, as an administrator, finds no key of a provider in the block that this process was started
    with. `os.environ` has it still."""
    if sys.platform != "linux" or os.environ.get(DEBUGGABLE):
        return
    import ctypes  # noqa: PLC0415  # deferred: runs that start nothing load it for nothing

    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(library, "environ")
    number = 0
    while block and (address := block[number]):
        name, _, value = ctypes.string_at(address).partition(b"=")
        if _KEY.search(name):
            ctypes.memset(address + len(name) + 1, 0, len(value))
        number += 1
