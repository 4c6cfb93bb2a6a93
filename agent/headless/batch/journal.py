"""Stores the progress of a batch: a results file with one JSON line per task, and next to it a journal of started
tasks.

A task is done when its result is in the file, and started when it is in the journal. The journal entry is synced to
disk before the session is opened, so that the session of a killed task is known and can be resumed."""

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.agent.errors import UsageError
from ebbtide.agent.headless.batch.tasks import BatchTask
from ebbtide.agent.records.session_lookup import is_session_id

_HEAD = {"journal": "ebb batch", "version": 1}


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that was started."""

    digest: str
    """Digest of the task when it was started."""
    session: str


class BatchJournal:
    """The journal of one results file, locked until it is closed. Raises `UsageError` if the files cannot be used, and
    `OSError` if they cannot be written."""

    def __init__(self, output: Path) -> None:
        self.output, self.path = output, output.with_name(f"{output.name}.journal")
        self._writes = threading.Lock()
        with ExitStack() as closing:
            self._lock = self._acquire_lock()
            closing.callback(os.close, self._lock)
            begun, torn = self._read_entries(self.path, _is_entry)
            if not begun and output.exists() and output.stat().st_size > 0:
                raise UsageError(
                    f"`{output}` exists but was not written by a batch; remove it, or choose another file with "
                    "`--output`"
                )
            found, end = self._read_entries(output, _is_result) if output.exists() else ([], 0)
            self.results: dict[str, Mapping[str, Any]] = {str(result["id"]): result for result in found}
            """Results of finished tasks, by id."""
            self.begun: dict[str, StartedTask] = {
                row["begun"]: StartedTask(row["task"], row["session"]) for row in begun if "begun" in row
            }
            """All started tasks, finished or not, by id."""
            self.stopped: set[str] = {id for row in begun for id in row.get("stopped", ())}
            """Ids of interrupted tasks; the last reply in their sessions may be incomplete."""
            self._results = _open_for_append(output, end)
            closing.callback(os.close, self._results)
            self._journal = _open_for_append(self.path, torn)
            closing.callback(os.close, self._journal)
            if not begun:
                _write(self._journal, _HEAD)
            _sync_folder(output.parent)
            closing.pop_all()

    def begin(self, task: BatchTask, session: str) -> None:
        """Record that a task starts, with the id of its session."""
        with self._writes:
            _write(self._journal, {"begun": task.id, "task": task.digest, "session": session})
        self.begun[task.id] = StartedTask(task.digest, session)

    def stop(self, *ids: str) -> None:
        """Record that these tasks are being interrupted."""
        with self._writes:
            _write(self._journal, {"stopped": ids})
        self.stopped.update(ids)

    def finish(self, task: BatchTask, result: Mapping[str, Any]) -> None:
        """Write the result of a finished task."""
        with self._writes:
            _write(self._results, result)
        self.results[task.id] = result

    def reopen(self, *ids: str) -> None:
        """Remove the results of these tasks, so that they run again in the same sessions, whatever their last reply
        was."""
        self.stop(*ids)
        kept = {id: result for id, result in self.results.items() if id not in ids}
        place = self.output.with_name(f".{self.output.name}.{os.getpid()}")
        try:
            with open(place, "wb") as file:
                file.writelines(map(_line, kept.values()))
                file.flush()
                os.fsync(file.fileno())
            os.replace(place, self.output)
        finally:
            place.unlink(missing_ok=True)
        _sync_folder(self.output.parent)
        os.close(self._results)
        self._results, self.results = _open_for_append(self.output, self.output.stat().st_size), kept

    def close(self) -> None:
        for descriptor in (self._results, self._journal, self._lock):
            os.close(descriptor)

    def _acquire_lock(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise UsageError(
                f"another `ebb batch` is using `{self.output}`; wait for it, or choose another file"
            ) from error
        return descriptor

    @staticmethod
    def _read_entries(path: Path, is_ours: Callable[[object], bool]) -> tuple[list[dict[str, Any]], int]:
        """Return the lines of a file and the end of the last complete one; a kill may have left a partial line after
        it. Raises `UsageError` for an invalid line."""
        rows, end = list[dict[str, Any]](), 0
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict) and number == 1 and is_ours is _is_entry and not row.items() >= _HEAD.items():
                raise UsageError(f"`{path}` is not a batch journal; choose another file with `--output`")
            if not isinstance(row, dict) or not is_ours(row):
                raise UsageError(f"line {number} of `{path}` is damaged; remove the line, or choose another file")
            rows.append(row)
            end += len(line)
        return rows, end


def _is_result(row: object) -> bool:
    match row:
        case {"id": str() | int(), "exit_code": int()}:
            return True
        case _:
            return False


def _is_entry(row: object) -> bool:
    match row:
        case {"journal": str()}:
            return True
        case {"begun": str(), "task": str(), "session": str(session)}:
            return is_session_id(session)
        case {"stopped": list(ids)}:
            return all(isinstance(id, str) for id in ids)
        case _:
            return False


@contextmanager
def open_journal(output: Path) -> Iterator[BatchJournal]:
    """Open the journal of a results file. Raises `UsageError`."""
    try:
        journal = BatchJournal(output)
    except OSError as error:
        raise UsageError(f"cannot write `{output}`: {error.strerror or error}") from error
    with closing(journal):
        yield journal


def _open_for_append(path: Path, end: int) -> int:
    """Open a file for appending, truncated to `end` bytes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, end)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _write(descriptor: int, row: Mapping[str, Any]) -> None:
    """Write a line and sync it to disk. If that fails, the partial line is removed."""
    line, start = _line(row), os.fstat(descriptor).st_size
    try:
        left = memoryview(line)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):  # the next line must not follow a partial one
            os.ftruncate(descriptor, start)
        raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that its file names survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
