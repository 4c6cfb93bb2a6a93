"""Signals to a program with all its descendants, and their cleanup if this program is killed, which a separate process
takes care of.

A program starts in its own session, whose id is that of its first process and of its group. Descendants that create
another group (`timeout`, a shell with job control) stay in the session.
"""

import atexit
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

_NEAR = 64
"""How far above a program's process id those of its first children usually are."""
TERMINATE_GRACE_S = 2.0
"""Seconds for a program to end by itself before its group is killed."""


class _Process(NamedTuple):
    state: bytes
    parent: int
    group: int
    session: int
    begun: int
    """Start time in clock ticks since boot. It distinguishes processes that reuse an id."""


class ProcessFamily:
    """A process that leads a session, everything in that session, and its descendants in other sessions. Detached
    processes there do not count."""

    def __init__(self, leader: int, *, is_wrapped: bool = False) -> None:
        """`is_wrapped`: the leader only waits for its child, and a termination signal would end it first."""
        self._leader = leader
        self._is_wrapped = is_wrapped
        self._groups = set[tuple[int, int]]()
        """Other groups than the leader's, with their sessions. When parents end, nothing shows whose they were."""
        self._known = dict[int, int]()
        """Known descendants with their start times. One may start a new session as its parent ends."""
        self._first = 0
        """The process with id 1 in the wrapper's namespace, or 0 if not known yet."""

    def signal(self, number: int, *, is_reaped: bool) -> bool:
        """Signal all processes, and return whether the leader's group has any. Signal 0 only checks. `is_reaped`: the
        leader was waited for, so its id may have been reused."""
        if is_reaped and exists(self._leader):
            return False
        if not number:
            return self.has_group()
        if self._is_wrapped and number != signal.SIGKILL and not is_reaped:
            others = self._find_others()
            is_there = _signal_followers(self._leader, number)
        else:
            _signal_group(self._leader, signal.SIGSTOP)  # so that no process is created during the search
            try:
                others = self._find_others()
            finally:
                is_there = _signal_group(self._leader, number)
                _signal_group(self._leader, signal.SIGCONT)
        for group in others:
            _signal_group(group, number)
        return is_there

    def has_group(self) -> bool:
        """Whether the leader's group has any process, including zombies."""
        return _signal_group(self._leader, 0)

    def is_living(self) -> bool:
        """Whether the group has a process that is not a zombie, as far as processes are visible."""
        seen = [process for _, process in _processes()]
        return not seen or any(process.group == self._leader and process.state not in b"ZX" for process in seen)

    def look(self) -> None:
        """Record the current descendants: when a parent ends, nothing shows whose its children were."""
        self._find_others()

    def members(self) -> list[int]:
        """Return the ids of all its processes and descendants."""
        return self._members(dict(_processes()))

    def is_alone(self) -> bool:
        """Whether at most the process that cleans up after the others is left."""
        processes = dict(_processes())
        return sum(processes[id].state not in b"ZX" for id in self._members(processes)) <= 1

    def is_finished(self) -> bool:
        """Whether the first process in the leader's pid namespace has ended. That is visible at once and ends the whole
        namespace, although the zombie may remain for seconds."""
        if not self._first:
            near = range(self._leader + 1, self._leader + _NEAR)
            self._first = next((id for id in near if _group_of(id) == self._leader and _is_first(id)), 0)
        state = _read(f"/proc/{self._first}/stat").rpartition(b")")[2].split()[:1] if self._first else []
        return state in ([b"Z"], [b"X"])

    def _find_others(self) -> list[int]:
        """Return the other groups, including those found earlier that still exist. Empty if the system does not list
        processes."""
        processes = dict(_processes())
        found = self._members(processes)
        every = {(process.group, process.session) for process in processes.values()}
        self._groups = (self._groups & every) | {(processes[id].group, processes[id].session) for id in found}
        self._known = {id: processes[id].begun for id in found}
        return [group for group, _ in self._groups if group not in (0, self._leader)]

    def _members(self, processes: Mapping[int, _Process]) -> list[int]:
        children = dict[int, list[int]]()
        for id, process in processes.items():
            children.setdefault(process.parent, []).append(id)
        known = self._known.items()
        found = [
            id for id, process in processes.items() if process.session == self._leader or (id, process.begun) in known
        ]
        waiting = [self._leader, *found]
        while waiting:
            new = children.pop(waiting.pop(), [])
            found += new
            waiting += new
        return found


def _group_of(process: int) -> int:
    fields = _read(f"/proc/{process}/stat").rpartition(b")")[2].split()
    return int(fields[2]) if fields else 0


def _is_first(process: int) -> bool:
    """Whether its id in its own namespace is 1."""
    line = next((line for line in _read(f"/proc/{process}/status").split(b"\n") if line.startswith(b"NSpid:")), b"")
    return line.split()[2:] == [b"1"]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _processes() -> Iterator[tuple[int, _Process]]:
    """Yield all visible processes with their ids."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as stat:  # it may have ended
                fields = stat.read().rpartition(b")")[2].split()
                yield int(name), _Process(fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal_followers(leader: int, number: int) -> bool:
    """Signal every process of a group except its leader, which stays to report how the others ended."""
    followers = [id for id, process in _processes() if process.group == leader and id != leader]
    for follower in followers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(follower, number)
    return bool(followers)


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
family=$groups others= every= grown=yes
for stat in /proc/[0-9]*/stat; do
  read -r line < "$stat" || continue
  set -- ${line##*) }
  every="$every ${line%% *}:$2:$3:$4"
done
while [ "$grown" ]; do
  grown=
  for each in $every; do
    process=${each%%:*} parent=${each#*:} session=${each##*:}
    parent=${parent%%:*} group=${each%:*}
    case " $family " in *" $process "*) continue ;; esac
    case " $family " in *" $parent "* | *" $session "*) ;; *) continue ;; esac
    family="$family $process" others="$others ${group##*:}" grown=yes
  done
done
for each in $groups $others; do kill -s KILL -- "-$each"; done
"""
"""Its input ends when no writer is left."""


class Guardian:
    """A helper process that kills the guarded groups, others in their sessions and all their descendants after this
    process has died. It starts with the first group."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        self._send(f"+ {group}\n")

    def leave(self, group: int) -> None:
        """Stop guarding a group that has ended, or that is to survive."""
        self._send(f"- {group}\n")

    def _send(self, line: str) -> None:
        with self._lock, suppress(OSError):  # without it, only this protection is missing
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
        """Let it kill what is left, and exit."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


GUARDIAN = Guardian()
"""The guardian of this process."""
