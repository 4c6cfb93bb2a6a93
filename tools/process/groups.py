"""Sends signals to a program and all its descendants. If Ebbtide itself is killed, a separate process ends the programs
that it started.

A program starts in its own session. The session's id is also that of the program's first process and its process group.
Descendants that create another group (`timeout`, a shell with job control) stay in the session.
"""

import atexit
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

_CHILD_ID_RANGE = 64
"""A program's first children usually have ids at most this far above its own."""
TERMINATE_GRACE_S = 2.0
"""Seconds for a program to end on its own before its group is killed."""


class _Process(NamedTuple):
    state: bytes
    parent: int
    group: int
    session: int
    start_ticks: int
    """Start time in clock ticks since boot. It distinguishes processes that reuse an id."""


class ProcessTree:
    """A process that leads a session, all other processes in that session, and its descendants in other sessions.
    Detached processes in other sessions are not included."""

    def __init__(self, leader: int, *, is_wrapped: bool = False) -> None:
        """`is_wrapped`: the leader is a wrapper that waits for its child. A termination signal would end the wrapper
        before the child."""
        self._leader = leader
        self._is_wrapped = is_wrapped
        self._other_groups = set[tuple[int, int]]()
        """Groups other than the leader's, with their sessions. They are recorded because, once the parents of its
        processes have ended, nothing shows that a group belongs to the tree."""
        self._start_ticks_by_id = dict[int, int]()
        """Known descendants with their start times. Recorded because a descendant may start a new session just as its
        parent ends."""
        self._namespace_init = 0
        """The process with id 1 in the wrapper's namespace; 0 while it is unknown."""

    def signal(self, signal_number: int, *, is_reaped: bool) -> bool:
        """Send a signal to all processes in the tree; return whether the leader's group has any. Signal 0 only checks.
        `is_reaped`: the leader has been waited for, so its id may have been reused."""
        if is_reaped and process_exists(self._leader):
            return False
        if not signal_number:
            return self.has_group()
        if self._is_wrapped and signal_number != signal.SIGKILL and not is_reaped:
            other_groups = self._record_other_groups()
            has_processes = _signal_nonleaders(self._leader, signal_number)
        else:
            _signal_group(self._leader, signal.SIGSTOP)  # so that no process is created meanwhile
            try:
                other_groups = self._record_other_groups()
            finally:
                has_processes = _signal_group(self._leader, signal_number)
                _signal_group(self._leader, signal.SIGCONT)
        for group in other_groups:
            _signal_group(group, signal_number)
        return has_processes

    def has_group(self) -> bool:
        """Whether the leader's group has any processes, including zombies."""
        return _signal_group(self._leader, 0)

    def has_living_process(self) -> bool:
        """Whether the group has a process that is not a zombie. True if the system does not list processes."""
        processes = [process for _, process in _processes()]
        return not processes or any(
            process.group == self._leader and process.state not in b"ZX" for process in processes
        )

    def record_descendants(self) -> None:
        """Record the current descendants. Once their parents have ended, nothing shows that they belong to the tree."""
        self._record_other_groups()

    def member_ids(self) -> list[int]:
        """Return the ids of all processes in the tree."""
        return self._members(dict(_processes()))

    def has_only_cleanup_process(self) -> bool:
        """Whether at most one process in the tree is still running, which is then the wrapper's cleanup process."""
        processes = dict(_processes())
        return sum(processes[process_id].state not in b"ZX" for process_id in self._members(processes)) <= 1

    def has_namespace_ended(self) -> bool:
        """Whether the first process in the leader's pid namespace has ended, which ends the whole namespace. This is
        detected immediately, even if the process remains a zombie for seconds."""
        if not self._namespace_init:
            candidate_ids = range(self._leader + 1, self._leader + _CHILD_ID_RANGE)
            self._namespace_init = next(
                (
                    process_id
                    for process_id in candidate_ids
                    if _group_of(process_id) == self._leader and _is_namespace_init(process_id)
                ),
                0,
            )
        state = (
            _read_proc_file(f"/proc/{self._namespace_init}/stat").rpartition(b")")[2].split()[:1]
            if self._namespace_init
            else []
        )
        return state in ([b"Z"], [b"X"])

    def _record_other_groups(self) -> list[int]:
        """Record and return the groups other than the leader's, including earlier ones that still exist. Empty if the
        system does not list processes."""
        processes = dict(_processes())
        members = self._members(processes)
        current_groups = {(process.group, process.session) for process in processes.values()}
        self._other_groups = (self._other_groups & current_groups) | {
            (processes[process_id].group, processes[process_id].session) for process_id in members
        }
        self._start_ticks_by_id = {process_id: processes[process_id].start_ticks for process_id in members}
        return [group for group, _ in self._other_groups if group not in (0, self._leader)]

    def _members(self, processes: Mapping[int, _Process]) -> list[int]:
        ids_by_parent = dict[int, list[int]]()
        for process_id, process in processes.items():
            ids_by_parent.setdefault(process.parent, []).append(process_id)
        recorded_descendants = self._start_ticks_by_id.items()
        members = [
            process_id
            for process_id, process in processes.items()
            if process.session == self._leader or (process_id, process.start_ticks) in recorded_descendants
        ]
        unvisited = [self._leader, *members]
        while unvisited:
            child_ids = ids_by_parent.pop(unvisited.pop(), [])
            members += child_ids
            unvisited += child_ids
        return members


def _group_of(process_id: int) -> int:
    fields = _read_proc_file(f"/proc/{process_id}/stat").rpartition(b")")[2].split()
    return int(fields[2]) if fields else 0


def _is_namespace_init(process_id: int) -> bool:
    """Whether the process has id 1 in its own namespace."""
    line = next(
        (line for line in _read_proc_file(f"/proc/{process_id}/status").split(b"\n") if line.startswith(b"NSpid:")), b""
    )
    return line.split()[2:] == [b"1"]


def _read_proc_file(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _processes() -> Iterator[tuple[int, _Process]]:
    """Yield all visible processes with their ids."""
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb", buffering=0) as stat:  # the process may have ended
                fields = stat.read().rpartition(b")")[2].split()
                yield int(name), _Process(fields[0], int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _signal_group(group: int, signal_number: int) -> bool:
    try:
        os.killpg(group, signal_number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _signal_nonleaders(leader: int, signal_number: int) -> bool:
    """Send a signal to every process in a group except its leader, which must still report how the others ended. Return
    whether there are any others."""
    followers = [process_id for process_id, process in _processes() if process.group == leader and process_id != leader]
    for follower in followers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(follower, signal_number)
    return bool(followers)


def process_exists(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


_GUARDIAN_SCRIPT = """
groups=
while read -r sign group; do
  kept=
  for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done
  [ "$sign" = + ] && kept="$kept $group"
  groups=$kept
done
[ "$groups" ] || exit 0
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
"""The helper's shell script. Its input ends once every process that could write to it has ended."""


class Guardian:
    """A helper process. If this process dies, the helper kills the guarded groups, all other groups in their sessions
    and all their descendants. It is started with the first guarded group."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, group: int) -> None:
        self._send(f"+ {group}\n")

    def release(self, group: int) -> None:
        """Stop guarding a group that has ended or is meant to survive."""
        self._send(f"- {group}\n")

    def _send(self, line: str) -> None:
        with self._lock, suppress(OSError):  # if the helper fails, only this protection is missing
            if self._process is None:
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARDIAN_SCRIPT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                    env={},
                    bufsize=0,
                )
                atexit.register(self._shut_down)
            if self._process.stdin is not None:
                self._process.stdin.write(line.encode())

    def _shut_down(self) -> None:
        """Let the helper kill the remaining processes and exit."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()


GUARDIAN = Guardian()
"""The guardian of this process."""
