"""What programs have started: signals to all of it, and the end of it when this program is killed, which leaves it no
time to end anything. A process of its own waits for that.

A program is started in a session of its own, whose number is that of its first process, as is that of its group. What
makes itself another group (`timeout`, a shell with job control) stays in the session.
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
"""Numbers behind that of a process among which those that it starts at once have theirs, mostly."""
TERMINATE_GRACE_S = 2.0
"""Seconds that a program gets to end by itself, before its group is ended."""


class _Process(NamedTuple):
    state: bytes
    parent: int
    group: int
    session: int
    begun: int
    """In ticks since the system started: a number is given to another process later, with another time."""


class ProcessFamily:
    """A process that leads a session, what is in that, and what descends from it in sessions of its own. What has
    detached itself from its parents there is not of it."""

    def __init__(self, leader: int, *, is_wrapped: bool = False) -> None:
        """`is_wrapped`: the leader only waits for what it started, and does not outlive a signal that asks to end."""
        self._leader = leader
        self._is_wrapped = is_wrapped
        self._groups = set[tuple[int, int]]()
        """Other groups than the leader's with their sessions: parents that end leave no trace of whose they were."""
        self._known = dict[int, int]()
        """Those who were found, with when they began: one may make itself a session as its parent ends."""
        self._first = 0
        """The process that has the number 1 among those that a wrapper started; 0 while it is not known."""

    def signal(self, number: int, *, is_reaped: bool) -> bool:
        """Whether there was anybody in the leader's group to take the signal; 0 only asks. `is_reaped`: whether the
        leader has been waited for, so that its number may belong to somebody else by now."""
        if is_reaped and exists(self._leader):
            return False
        if not number:
            return self.has_group()
        if self._is_wrapped and number != signal.SIGKILL and not is_reaped:
            others = self._find_others()
            is_there = _signal_followers(self._leader, number)
        else:
            _signal_group(self._leader, signal.SIGSTOP)  # so that nobody is born while they are looked for
            try:
                others = self._find_others()
            finally:
                is_there = _signal_group(self._leader, number)
                _signal_group(self._leader, signal.SIGCONT)
        for group in others:
            _signal_group(group, number)
        return is_there

    def has_group(self) -> bool:
        """Whether there is anybody in the leader's group, zombies among them."""
        return _signal_group(self._leader, 0)

    def is_living(self) -> bool:
        """Whether one of that group is more than a zombie that nobody has buried, as far as one can see."""
        seen = [process for _, process in _processes()]
        return not seen or any(process.group == self._leader and process.state not in b"ZX" for process in seen)

    def look(self) -> None:
        """Finds what descends from it now: a parent that ends by itself leaves no trace of whose its children were."""
        self._find_others()

    def members(self) -> list[int]:
        """The numbers of all that it is, and of what descends from it."""
        return self._members(dict(_processes()))

    def is_alone(self) -> bool:
        """Whether of all that it started at most the process is left that cleans up behind the others."""
        processes = dict(_processes())
        return sum(processes[id].state not in b"ZX" for id in self._members(processes)) <= 1

    def is_finished(self) -> bool:
        """Whether the first process of its numbers that the leader started has ended, which is seen at once: with it
        ends all that has such numbers, and it may lie about for seconds until somebody buries it."""
        if not self._first:
            near = range(self._leader + 1, self._leader + _NEAR)
            self._first = next((id for id in near if _group_of(id) == self._leader and _is_first(id)), 0)
        state = _read(f"/proc/{self._first}/stat").rpartition(b")")[2].split()[:1] if self._first else []
        return state in ([b"Z"], [b"X"])

    def _find_others(self) -> list[int]:
        """The other groups, those that were found before too while they last. None where the system tells of none."""
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
    """Whether it has another number for those in its namespace, and that is 1."""
    line = next((line for line in _read(f"/proc/{process}/status").split(b"\n") if line.startswith(b"NSpid:")), b"")
    return line.split()[2:] == [b"1"]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _processes() -> Iterator[tuple[int, _Process]]:
    """All processes that can be seen, by their numbers."""
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
    """Signals each of a group but the one who leads it, so that it stays to tell how the others ended."""
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
"""Its input ends when nobody is left who could write to it."""


class Guardian:
    """Ends the groups that it guards, the others of their sessions and those of whatever descends from them, once this
    process is gone. It is started with the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        self._send(f"+ {group}\n")

    def leave(self, group: int) -> None:
        """The group has ended, or is to live on."""
        self._send(f"- {group}\n")

    def _send(self, line: str) -> None:
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
