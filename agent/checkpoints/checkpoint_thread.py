"""Runs the checkpoint work of a project in one thread. The code for it is imported with the first job."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ebbtide.agent.errors import AgentError, StoreFailed

if TYPE_CHECKING:  # types only: most runs change no file
    from ebbtide.agent.checkpoints.project import ProjectCheckpoints

T = TypeVar("T")
Job: TypeAlias = "tuple[Callable[[ProjectCheckpoints], Any], Future[Any], bool]"

LARGE_FOLDER_PATHS = 2000
"""A folder with at least this many paths is scanned ahead of time."""


class CheckpointThread:
    """Jobs run in the order they were submitted, but `short` ones do not wait for a scan ahead of time."""

    def __init__(self, open_project: "Callable[[], ProjectCheckpoints]") -> None:
        self._open_project = open_project
        self._executor: ThreadPoolExecutor | None = None
        self._waiting: deque[Job] = deque()
        self._project: ProjectCheckpoints | None = None
        self._is_closing = False
        self.set_aside = ""
        """The notice about a damaged database, if there was one."""

    @property
    def to_read(self) -> int:
        """How many files the current scan still has to read."""
        return self._project.to_read if self._project is not None else 0

    def submit(self, work: "Callable[[ProjectCheckpoints], T]", *, short: bool = False) -> Future[T]:
        future: Future[T] = Future()
        self._waiting.append((work, future, short))
        self._run(self._do_next)
        return future

    def look_ahead(self, root: Path, session: str, stopped: Callable[[], bool]) -> None:
        """Scan a large folder now, so that the first command does not have to wait for it."""
        self._run(partial(self._look_ahead, root, session, stopped))

    def close(self) -> None:
        """Stop a scan ahead of time and finish all submitted jobs. Raises `AgentError`."""
        self._is_closing = True
        if self._executor is None:
            return
        ended = self._executor.submit(self._end)
        self._executor.shutdown()
        self._executor = None
        ended.result()

    def _end(self) -> None:
        if self._project is not None:
            self._project.close()

    def _run(self, work: Callable[[], None]) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._executor.submit(work)

    def _do_next(self) -> None:
        if not self._waiting:  # it ran during a scan ahead of time
            return
        work, future, _ = self._waiting.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work(self._open_checkpoints()))
        except BaseException as error:  # noqa: BLE001  # passed on to the caller
            if isinstance(error, (StoreFailed, OSError)):
                self._discard_failed()
            future.set_exception(error)

    def _discard_failed(self) -> None:
        """Close the checkpoints after a failed write; the next job opens them again. On a full disk, the open
        write-ahead log would take the space that the session itself needs."""
        project, self._project = self._project, None
        if project is not None:
            with suppress(AgentError, OSError):
                project.close()

    def _open_checkpoints(self) -> "ProjectCheckpoints":
        if self._project is None:
            self._project = self._open_project()
            self.set_aside = self._project.set_aside or self.set_aside
        return self._project

    def _look_ahead(self, root: Path, session: str, stopped: Callable[[], bool]) -> None:
        from ebbtide.tools.search.walk import nearest_below  # noqa: PLC0415  # deferred: as above

        def is_to_end() -> bool:
            while self._waiting and self._waiting[0][2]:
                self._do_next()
            return self._is_closing or stopped()

        if (
            sum(1 for _ in islice(nearest_below(str(root)), LARGE_FOLDER_PATHS)) == LARGE_FOLDER_PATHS
            and not is_to_end()
        ):
            try:
                self._open_checkpoints().prepare(session, is_to_end)
            except (AgentError, OSError):
                return  # the first call that needs it fails as well and reports it
