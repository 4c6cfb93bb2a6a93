"""Runs a project's checkpoint work in one thread. Most of the code is imported when the first job runs."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ebbtide.agent.errors import AgentError, StoreFailed
from ebbtide.tools import search

if TYPE_CHECKING:  # imported for types only, because most runs change no files
    from ebbtide.agent.checkpoints.project import ProjectCheckpoints

T = TypeVar("T")
QueuedWork: TypeAlias = "tuple[Callable[[ProjectCheckpoints], Any], Future[Any], bool]"

MIN_SCANNED_AHEAD_PATHS = 2000
"""Minimum number of paths in a folder for it to be scanned ahead of time."""


class CheckpointThread:
    """Runs submitted jobs in order. Short jobs do not wait for a scan ahead of time to finish."""

    def __init__(self, open_project: "Callable[[], ProjectCheckpoints]") -> None:
        self._open_project = open_project
        self._executor: ThreadPoolExecutor | None = None
        self._queue: deque[QueuedWork] = deque()
        self._project: ProjectCheckpoints | None = None
        self._is_closing = False
        self.damage_notice = ""
        """The notice about a damaged database; empty if there was none."""

    @property
    def unread_file_count(self) -> int:
        """Number of files that the current scan has yet to read."""
        return self._project.unread_file_count if self._project is not None else 0

    def submit(self, work: "Callable[[ProjectCheckpoints], T]", *, is_short: bool = False) -> Future[T]:
        future: Future[T] = Future()
        self._queue.append((work, future, is_short))
        self._run_in_thread(self._run_next_job)
        return future

    def scan_ahead(self, root: Path, session_id: str, is_cancelled: Callable[[], bool]) -> None:
        """If the folder is large, scan it now, so that the first command need not wait for the scan."""
        self._run_in_thread(partial(self._scan_ahead, root, session_id, is_cancelled))

    def close(self) -> None:
        """Stop a scan ahead of time, and finish all submitted jobs. Raises `AgentError`."""
        self._is_closing = True
        if self._executor is None:
            return
        close_future = self._executor.submit(self._close_project)
        self._executor.shutdown()
        self._executor = None
        close_future.result()

    def _close_project(self) -> None:
        if self._project is not None:
            self._project.close()

    def _run_in_thread(self, work: Callable[[], None]) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._executor.submit(work)

    def _run_next_job(self) -> None:
        if not self._queue:  # the job has already run, during a scan ahead of time
            return
        work, future, _ = self._queue.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work(self._open_checkpoints()))
        except BaseException as error:  # noqa: BLE001  # passed on to the caller
            if isinstance(error, (StoreFailed, OSError)):
                self._close_after_failure()
            future.set_exception(error)

    def _close_after_failure(self) -> None:
        """Close the checkpoints after a failed write; the next job opens them again. If the disk is full, this frees
        the space of their write-ahead log, which the session itself needs."""
        project, self._project = self._project, None
        if project is not None:
            with suppress(AgentError, OSError):
                project.close()

    def _open_checkpoints(self) -> "ProjectCheckpoints":
        if self._project is None:
            self._project = self._open_project()
            self.damage_notice = self._project.damage_notice or self.damage_notice
        return self._project

    def _scan_ahead(self, root: Path, session: str, is_cancelled: Callable[[], bool]) -> None:
        def must_stop() -> bool:
            while self._queue and self._queue[0][2]:
                self._run_next_job()
            return self._is_closing or is_cancelled()

        if (
            sum(1 for _ in islice(search.walk.walk_nearest_first(str(root)), MIN_SCANNED_AHEAD_PATHS))
            == MIN_SCANNED_AHEAD_PATHS
            and not must_stop()
        ):
            try:
                self._open_checkpoints().scan_ahead(session, must_stop)
            except (AgentError, OSError):
                return  # the first call that needs the checkpoints will fail as well and report the error
