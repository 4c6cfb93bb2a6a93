"""The checkpoints of a running session: files are stored before a call may change them, and the changes are recorded
afterwards in the background. The code for it is imported with the first such call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.file_state import TurnChanges
from ebbtide.agent.checkpoints.undo_points import TurnPlace
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, Noticed, TurnStarted
from ebbtide.agent.events.view import FilesChanged

if TYPE_CHECKING:  # types only: most runs change no file
    from ebbtide.agent.checkpoints.project import ProjectCheckpoints

P = ParamSpec("P")
T = TypeVar("T")

WAIT_NOTICE_DELAY_S = 1.0
"""Seconds after which the user is told about the wait."""
TAKES_TIME = (
    "files in this folder are being copied so that `/undo` can revert what commands change; "
    "this is slow only the first time"
)
LONGEST_TITLE = 120


def open_project(config: Config, root: Path) -> "ProjectCheckpoints":
    """Open the checkpoints of a folder. Raises `StoreFailed`."""
    from ebbtide.agent.checkpoints.project import ProjectCheckpoints  # noqa: PLC0415  # deferred: as above
    from ebbtide.agent.checkpoints.work_tree import Limits  # noqa: PLC0415  # deferred: as above

    limits = Limits(config.checkpoints_max_files, config.checkpoints_max_file_bytes, config.checkpoints_max_bytes)
    return ProjectCheckpoints(config.folders.data, root, limits, config.checkpoints_max_bytes)


class SessionCheckpoints:
    """The checkpoints of one session. Failures never prevent a call; each is reported once."""

    def __init__(
        self,
        thread: CheckpointThread,
        session: str,
        position: Callable[[], int],
        has_jobs: Callable[[], bool],
        emit: Callable[[Event], None],
        interrupt: Interrupt,
        ahead_in: Path | None = None,
    ) -> None:
        """`position`: returns how many messages the session has. `has_jobs`: returns whether commands run in the
        background. `ahead_in`: the folder to scan while waiting for the first reply."""
        self._thread = thread
        self._session = session
        self._position = position
        self._has_jobs = has_jobs
        self._emit = emit
        self._interrupt = interrupt
        self._ahead_in = ahead_in
        self.turn = TurnPlace(session, 0)
        self._is_touched = False
        """Whether the turn may have changes to record."""
        self._uncovered = ""
        self._commands = 0
        """Running commands of the session and its sub-agents."""
        self._told: set[str] = set()
        self._running: set[asyncio.Task[object]] = set()

    def note(self, event: Event) -> None:
        """Record the start of a turn."""
        if isinstance(event, TurnStarted):
            title = " ".join(event.text.split())[:LONGEST_TITLE]
            self.turn, self._uncovered, self._is_touched = TurnPlace(self._session, self._position(), title), "", False
            if self._ahead_in is not None:
                self._thread.look_ahead(self._ahead_in, self._session, self._interrupt.is_requested)
                self._ahead_in = None

    @asynccontextmanager
    async def around(
        self, effect: str, subjects: Sequence[str], *, reads_only: bool, show: Callable[[str], None]
    ) -> AsyncIterator[None]:
        """Store the files before a call, and record their changes in the background after it. `show` receives
        progress while it waits."""
        turn = self.turn
        if effect == "write":
            self._is_touched = True
            before = await self._try_work(lambda project: project.states(subjects), short=True)
            try:
                yield
            finally:
                if before:
                    self._later(lambda project: project.record_changes(turn, before), short=True)
        elif effect in ("run", "serve") and not reads_only:
            self._is_touched = True
            in_job, interrupt = self._has_jobs(), self._interrupt
            if self._commands:  # what sub-agents' commands have changed so far belongs to the turn as well
                self._later(lambda project: project.end(turn))
            self._commands += 1
            why: str | None = None
            try:
                begun = self._try_work(
                    lambda project: project.begin(turn, in_job=in_job, stopped=interrupt.is_requested)
                )
                why = await self._with_wait_notice(begun, show)
                self._uncovered = why or self._uncovered
                yield
            finally:
                self._commands -= 1
                if why == "":
                    self._later(lambda project: project.end(turn))
        else:
            yield

    async def _with_wait_notice(self, work: Coroutine[Any, Any, T], show: Callable[[str], None]) -> T:
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=WAIT_NOTICE_DELAY_S))[0]:
            if TAKES_TIME not in self._told:
                self._told.add(TAKES_TIME)
                self._emit(Noticed(TAKES_TIME))
            if self._thread.to_read:
                show(f"{self._thread.to_read:,} files left to copy\n")
        return await task

    async def end_turn(self) -> None:
        """Emit what the turn changed."""
        if not self._is_touched:
            return
        turn, uncovered = self.turn, self._uncovered
        changes = await self._try_work(lambda project: project.finish(turn)) or TurnChanges()
        if uncovered in self._told:
            uncovered = ""
        self._told.add(uncovered)
        if changes.files or uncovered:
            self._emit(FilesChanged(changes.files, uncovered, changes.added, changes.removed))

    async def run(
        self, work: "Callable[Concatenate[ProjectCheckpoints, P], T]", *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `work` in the checkpoint thread and return its result. Raises `AgentError`."""
        try:
            return await asyncio.wrap_future(self._thread.submit(lambda project: work(project, *args, **kwargs)))
        finally:
            self._notify_once(self._thread.set_aside)

    async def _try_work(self, work: "Callable[[ProjectCheckpoints], T]", *, short: bool = False) -> T | None:
        """The result of the work; None if it failed, which is reported."""
        return await self._outcome(self._thread.submit(work, short=short))

    async def _outcome(self, future: Future[T]) -> T | None:
        try:
            return await asyncio.wrap_future(future)
        except (AgentError, OSError) as error:
            self._notify_once(f"`/undo` cannot revert this: {error}")
            return None
        finally:
            self._notify_once(self._thread.set_aside)

    def _notify_once(self, told: str) -> None:
        if told and told not in self._told:
            self._told.add(told)
            self._emit(Noticed(told))

    def _later(self, work: "Callable[[ProjectCheckpoints], object]", *, short: bool = False) -> None:
        """Queue work ahead of any later job, without waiting for it."""
        task = asyncio.ensure_future(self._outcome(self._thread.submit(work, short=short)))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._running)
        try:
            await asyncio.to_thread(self._thread.close)
        except (AgentError, OSError) as error:
            self._notify_once(f"`/undo` cannot revert this: {error}")
