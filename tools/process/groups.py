"""Process groups, whose number is that of the process that each began with: signals to one, and the end of all when
this program is killed, which leaves it no time to end anything. A process of its own waits for that."""

import atexit
import os
import subprocess
from contextlib import suppress
from threading import Lock

GRACE = 2.0
"""Seconds that a program gets to end by itself, before its group is ended."""


def signal_group(group: int, number: int, is_reaped: bool) -> bool:
    """Whether there was anybody in the group to take the signal; 0 only asks. `is_reaped`: whether the process that it
    began with has been waited for, so that its number may belong to somebody else by now."""
    if is_reaped and exists(group):
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_WAITS = """
groups=
while read -r sign group; do
  kept=
  for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done
  [ "$sign" = + ] && kept="$kept $group"
  groups=$kept
done
for each in $groups; do kill -s KILL -- "-$each"; done
"""
"""Its input ends when nobody is left who could write to it."""


class Guardian:
    """Ends the groups that it guards once this process is gone. It is started with the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        self._tell(f"+ {group}\n")

    def leave(self, group: int) -> None:
        """The group has ended, or is to live on."""
        self._tell(f"- {group}\n")

    def _tell(self, line: str) -> None:
        with self._lock, suppress(OSError):  # without it, only this is missing
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _WAITS],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                    env={},
                    bufsize=0,
                )
                atexit.register(self._dismiss)
            if self._process.stdin is not None:
                self._process.stdin.write(line.encode())

    def _dismiss(self) -> None:
        """Lets it end what is left, and itself."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


GUARDIAN = Guardian()
"""That of this process."""
