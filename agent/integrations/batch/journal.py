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
from ebbtide.agent.integrations.batch.tasks import BatchTask
from ebbtide.agent.records.session_lookup import is_session_id

_HEADER = {"journal": "ebb batch", "version": 1}


@dataclass(frozen=True, slots=True)
class StartedTask:
    """A task that was started."""

    digest: str
    """Digest of the task when it was started."""
    session_id: str


class BatchJournal:
    """The journal of a results file, locked until it is closed. Raises `UsageError` if the files cannot be used, and
    `OSError` if they cannot be written."""

    def __init__(self, results_path: Path) -> None:
        self.results_path, self.path = results_path, results_path.with_name(f"{results_path.name}.journal")
        self._write_lock = threading.Lock()
        with ExitStack() as exit_stack:
            self._lock_descriptor = self._acquire_lock()
            exit_stack.callback(os.close, self._lock_descriptor)
            journal_rows, journal_end = self._read_entries(self.path, _is_journal_entry)
            if not journal_rows and results_path.exists() and results_path.stat().st_size > 0:
                raise UsageError(
                    f"`{results_path}` exists but was not written by a batch; remove it, or choose another file with "
                    "`--output`"
                )
            result_rows, results_end = (
                self._read_entries(results_path, _is_result) if results_path.exists() else ([], 0)
            )
            self.results: dict[str, Mapping[str, Any]] = {str(result["id"]): result for result in result_rows}
            """Results of finished tasks, by id."""
            self.started_tasks: dict[str, StartedTask] = {
                row["begun"]: StartedTask(row["task"], row["session"]) for row in journal_rows if "begun" in row
            }
            """All tasks that were started, finished or not, by id."""
            self.interrupted_ids: set[str] = {task_id for row in journal_rows for task_id in row.get("stopped", ())}
            """Ids of interrupted tasks. The last reply in their sessions may be incomplete."""
            self._results_descriptor = _open_for_append(results_path, results_end)
            exit_stack.callback(os.close, self._results_descriptor)
            self._journal_descriptor = _open_for_append(self.path, journal_end)
            exit_stack.callback(os.close, self._journal_descriptor)
            if not journal_rows:
                _append_line(self._journal_descriptor, _HEADER)
            _sync_folder(results_path.parent)
            exit_stack.pop_all()

    def record_start(self, task: BatchTask, session_id: str) -> None:
        """Record that a task starts, with the id of its session."""
        with self._write_lock:
            _append_line(self._journal_descriptor, {"begun": task.id, "task": task.digest, "session": session_id})
        self.started_tasks[task.id] = StartedTask(task.digest, session_id)

    def record_interruption(self, *task_ids: str) -> None:
        """Record that these tasks are being interrupted."""
        with self._write_lock:
            _append_line(self._journal_descriptor, {"stopped": task_ids})
        self.interrupted_ids.update(task_ids)

    def record_result(self, task: BatchTask, result: Mapping[str, Any]) -> None:
        """Write the result of a finished task."""
        with self._write_lock:
            _append_line(self._results_descriptor, result)
        self.results[task.id] = result

    def remove_results(self, *task_ids: str) -> None:
        """Remove these tasks' results, so that the tasks run again in the same sessions, even if a session already has
        an answer."""
        self.record_interruption(*task_ids)
        remaining = {task_id: result for task_id, result in self.results.items() if task_id not in task_ids}
        temporary_path = self.results_path.with_name(f".{self.results_path.name}.{os.getpid()}")
        try:
            with open(temporary_path, "wb") as file:
                file.writelines(map(_encoded_line, remaining.values()))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary_path, self.results_path)
        finally:
            temporary_path.unlink(missing_ok=True)
        _sync_folder(self.results_path.parent)
        os.close(self._results_descriptor)
        self._results_descriptor = _open_for_append(self.results_path, self.results_path.stat().st_size)
        self.results = remaining

    def close(self) -> None:
        for descriptor in (self._results_descriptor, self._journal_descriptor, self._lock_descriptor):
            os.close(descriptor)

    def _acquire_lock(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise UsageError(
                f"another `ebb batch` is using `{self.results_path}`; wait for it, or choose another file"
            ) from error
        return descriptor

    @staticmethod
    def _read_entries(path: Path, is_valid: Callable[[object], bool]) -> tuple[list[dict[str, Any]], int]:
        """Parse the complete lines of a file. Also return the offset where they end, because a killed program may have
        left a partial line after them. Raises `UsageError` for an invalid line."""
        rows, end = list[dict[str, Any]](), 0
        for line_number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.endswith(b"\n"):
                break
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if (
                isinstance(row, dict)
                and line_number == 1
                and is_valid is _is_journal_entry
                and not row.items() >= _HEADER.items()
            ):
                raise UsageError(f"`{path}` is not a batch journal; choose another file with `--output`")
            if not isinstance(row, dict) or not is_valid(row):
                raise UsageError(f"line {line_number} of `{path}` is damaged; remove the line, or choose another file")
            rows.append(row)
            end += len(line)
        return rows, end


def _is_result(row: object) -> bool:
    match row:
        case {"id": str() | int(), "exit_code": int()}:
            return True
        case _:
            return False


def _is_journal_entry(row: object) -> bool:
    match row:
        case {"journal": str()}:
            return True
        case {"begun": str(), "task": str(), "session": str(session)}:
            return is_session_id(session)
        case {"stopped": list(ids)}:
            return all(isinstance(task_id, str) for task_id in ids)
        case _:
            return False


@contextmanager
def open_journal(results_path: Path) -> Iterator[BatchJournal]:
    """Open the journal of a results file, and close it when the context ends. Raises `UsageError`."""
    try:
        journal = BatchJournal(results_path)
    except OSError as error:
        raise UsageError(f"cannot write `{results_path}`: {error.strerror or error}") from error
    with closing(journal):
        yield journal


def _open_for_append(path: Path, size: int) -> int:
    """Open a file for appending, truncated to `size` bytes."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _encoded_line(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _append_line(descriptor: int, row: Mapping[str, Any]) -> None:
    """Write a line and sync it to disk. If that fails, the partial line is removed."""
    line, start = _encoded_line(row), os.fstat(descriptor).st_size
    try:
        unwritten_bytes = memoryview(line)
        while unwritten_bytes:
            unwritten_bytes = unwritten_bytes[os.write(descriptor, unwritten_bytes) :]
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):  # the next line must not be appended to a partial one
            os.ftruncate(descriptor, start)
        raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that its file names survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
