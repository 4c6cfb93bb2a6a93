"""The checkpoints of a running session. Files are stored before a call that might change them, and the changes are
recorded in the background after the call. Most of the code is imported when the first such call runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ebbtide.agent import checkpoints
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.checkpoints.checkpoint_thread import CheckpointThread
from ebbtide.agent.checkpoints.file_state import TurnChanges
from ebbtide.agent.checkpoints.undo_points import TurnKey
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event, Noticed, TurnStarted
from ebbtide.agent.events.view import FilesChanged

if TYPE_CHECKING:  # imported for types only, because most runs change no files
    from ebbtide.agent.checkpoints.project import ProjectCheckpoints

P = ParamSpec("P")
T = TypeVar("T")

WAIT_NOTICE_DELAY_S = 1.0
"""Seconds of waiting after which the user is notified."""
SLOW_SCAN_NOTICE = (
    "files in this folder are being copied so that `/undo` can revert what commands change; "
    "this is slow only the first time"
)
MAX_TITLE_CHARS = 120


def open_project(config: Config, root: Path) -> "ProjectCheckpoints":
    """Open the checkpoints of a folder. Raises `StoreFailed`."""
    limits = checkpoints.unread_files.ScanLimits(
        config.checkpoints_max_files, config.checkpoints_max_file_bytes, config.checkpoints_max_bytes
    )
    return checkpoints.project.ProjectCheckpoints(config.folders.data, root, limits, config.checkpoints_max_bytes)


class SessionCheckpoints:
    """The checkpoints of one session. Failures never prevent a call; each is reported once."""

    def __init__(
        self,
        thread: CheckpointThread,
        session: str,
        count_messages: Callable[[], int],
        has_jobs: Callable[[], bool],
        emit: Callable[[Event], None],
        interrupt: Interrupt,
        scan_ahead_root: Path | None = None,
    ) -> None:
        """`count_messages`: returns the number of messages in the session. `has_jobs`: returns whether commands run in
        the background. `scan_ahead_root`: the folder to scan while the first request is running."""
        self._thread = thread
        self._session = session
        self._count_messages = count_messages
        self._has_jobs = has_jobs
        self._emit = emit
        self._interrupt = interrupt
        self._scan_ahead_root = scan_ahead_root
        self.turn = TurnKey(session, 0)
        self._may_have_changes = False
        """Whether the turn ran a call that might have changed files."""
        self._uncovered_reason = ""
        """Why changes by the turn's commands cannot be undone; empty if they can."""
        self._running_command_count = 0
        """Number of running commands of the session and its sub-agents."""
        self._notified: set[str] = set()
        self._background_tasks: set[asyncio.Task[object]] = set()

    def observe(self, event: Event) -> None:
        """Record the start of a turn."""
        if isinstance(event, TurnStarted):
            title = " ".join(event.text.split())[:MAX_TITLE_CHARS]
            self.turn = TurnKey(self._session, self._count_messages(), title)
            self._uncovered_reason = ""
            self._may_have_changes = False
            if self._scan_ahead_root is not None:
                self._thread.scan_ahead(self._scan_ahead_root, self._session, self._interrupt.is_requested)
                self._scan_ahead_root = None

    @asynccontextmanager
    async def guard_call(
        self, effect: str, subjects: Sequence[str], *, reads_only: bool, on_progress: Callable[[str], None]
    ) -> AsyncIterator[None]:
        """Store the files before a call, and record their changes in the background after the call. `on_progress`
        receives progress while the call waits for the scan."""
        turn = self.turn
        if effect == "write":
            self._may_have_changes = True
            previous_states = await self._try_work(lambda project: project.capture_states(subjects), is_short=True)
            try:
                yield
            finally:
                if previous_states:
                    self._run_in_background(
                        lambda project: project.record_changes(turn, previous_states), is_short=True
                    )
        elif effect in ("run", "serve") and not reads_only:
            self._may_have_changes = True
            in_job, interrupt = self._has_jobs(), self._interrupt
            if self._running_command_count:  # another command is running, so changes made so far belong to the turn
                self._run_in_background(lambda project: project.end_command(turn))
            self._running_command_count += 1
            problem: str | None = None
            try:
                begin = self._try_work(
                    lambda project: project.begin_command(turn, in_job=in_job, is_cancelled=interrupt.is_requested)
                )
                problem = await self._with_wait_notice(begin, on_progress)
                self._uncovered_reason = problem or self._uncovered_reason
                yield
            finally:
                self._running_command_count -= 1
                if problem == "":
                    self._run_in_background(lambda project: project.end_command(turn))
        else:
            yield

    async def _with_wait_notice(self, work: Coroutine[Any, Any, T], on_progress: Callable[[str], None]) -> T:
        task = asyncio.ensure_future(work)
        while not (await asyncio.wait({task}, timeout=WAIT_NOTICE_DELAY_S))[0]:
            if SLOW_SCAN_NOTICE not in self._notified:
                self._notified.add(SLOW_SCAN_NOTICE)
                self._emit(Noticed(SLOW_SCAN_NOTICE))
            if self._thread.unread_file_count:
                on_progress(f"{self._thread.unread_file_count:,} files left to copy\n")
        return await task

    async def end_turn(self) -> None:
        """Finish the turn's checkpoint and emit an event with the files that the turn changed."""
        if not self._may_have_changes:
            return
        turn, uncovered_reason = self.turn, self._uncovered_reason
        changes = await self._try_work(lambda project: project.finish_turn(turn)) or TurnChanges()
        if uncovered_reason in self._notified:
            uncovered_reason = ""
        self._notified.add(uncovered_reason)
        in_job = self._has_jobs()
        self._run_in_background(lambda project: project.check_turn(turn, in_job=in_job))
        if changes.files or uncovered_reason:
            self._emit(
                FilesChanged(changes.files, uncovered_reason, changes.added_line_count, changes.removed_line_count)
            )

    async def run(
        self, work: "Callable[Concatenate[ProjectCheckpoints, P], T]", *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run `work` in the checkpoint thread and return its result. Raises `AgentError`."""
        try:
            return await asyncio.wrap_future(self._thread.submit(lambda project: work(project, *args, **kwargs)))
        finally:
            self._notify_once(self._thread.damage_notice)

    async def record_user_change(self, title: str, paths: Sequence[str], change: Callable[[], object]) -> None:
        """Run `change`, which changes these files for the user, as an undo point of its own. Raises `AgentError`, and
        what `change` raises."""
        turn = TurnKey(self._session, self._count_messages(), title)
        previous_states = await self.run(lambda project: project.capture_states(paths))
        await asyncio.to_thread(change)
        await self.run(lambda project: project.record_changes(turn, previous_states))
        await self.run(lambda project: project.finish_turn(turn))

    async def _try_work(self, work: "Callable[[ProjectCheckpoints], T]", *, is_short: bool = False) -> T | None:
        """Run `work` in the checkpoint thread and return its result. If it fails, notify the user and return None."""
        return await self._result_or_none(self._thread.submit(work, is_short=is_short))

    async def _result_or_none(self, future: Future[T]) -> T | None:
        try:
            return await asyncio.wrap_future(future)
        except (AgentError, OSError) as error:
            self._notify_once(f"`/undo` cannot revert this: {error}")
            return None
        finally:
            self._notify_once(self._thread.damage_notice)

    def _notify_once(self, notice: str) -> None:
        if notice and notice not in self._notified:
            self._notified.add(notice)
            self._emit(Noticed(notice))

    def _run_in_background(self, work: "Callable[[ProjectCheckpoints], object]", *, is_short: bool = False) -> None:
        """Submit work without waiting for it. It runs before jobs that are submitted later."""
        task = asyncio.ensure_future(self._result_or_none(self._thread.submit(work, is_short=is_short)))
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def close(self) -> None:
        await asyncio.gather(*self._background_tasks)
        try:
            await asyncio.to_thread(self._thread.close)
        except (AgentError, OSError) as error:
            self._notify_once(f"`/undo` cannot revert this: {error}")
