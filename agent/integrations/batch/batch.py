"""Runs the tasks of a file concurrently, each once, within a shared budget.

Each task has a session in the store. If the batch is killed or stopped, the next run resumes the sessions of unfinished
tasks: no prompt is sent twice, no call is run twice, and an existing answer is used as the result. All tasks run in
this process, because most of the time is spent waiting for models.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from ebbtide.agent.compose.sessions import ID_BYTES, ProjectSessions
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.stop import stop_on_signals
from ebbtide.agent.integrations.batch.journal import BatchJournal
from ebbtide.agent.integrations.batch.task_run import TaskRun
from ebbtide.agent.integrations.batch.tasks import BatchTask
from ebbtide.agent.integrations.batch.worktrees import BatchWorktrees
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import Worktree

BatchEnd: TypeAlias = Literal["done", "interrupted", "cost_limit", "stopped"]


class BatchProgress(Protocol):
    """Receives the progress of a batch."""

    def begin(self, run: TaskRun, *, is_resumed: bool) -> None: ...

    def show(self, run: TaskRun, event: Event) -> None: ...

    def end(self, run: TaskRun) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of a batch, including its earlier runs."""

    end: BatchEnd
    tasks: int
    answered: int
    """Number of tasks that ended with exit code 0."""
    failed: int
    """Number of tasks that ended with another exit code."""
    left: int
    """Number of unfinished tasks."""
    cost: float
    """Cost of all tasks in US dollars, excluding requests with unknown prices."""
    message: str
    """Why the batch stopped early; empty if it did not."""
    exit_code: int


@dataclass(eq=False)
class Batch:
    """The tasks of a file and their state."""

    tasks: Sequence[BatchTask]
    journal: BatchJournal
    open_sessions: Callable[[BatchTask, Path | None], ProjectSessions]
    """Opens the project's sessions for a task. If the folder is None, the task's own folder is used. The caller closes
    the sessions. Raises `AgentError`."""
    store_sessions: ProjectSessions
    """Keeps the store open during the batch, because opening it is slow."""
    progress: BatchProgress
    max_concurrent_tasks: int
    """Maximum number of tasks that run at the same time."""
    max_cost: float | None = None
    """Cost limit for all tasks in US dollars, including earlier runs."""
    worktrees: BatchWorktrees | None = None
    """The worktrees, if each task gets its own; otherwise None."""
    max_time: float | None = None
    """Default time limit per task, in seconds."""
    running_tasks: list[TaskRun] = field(default_factory=list)
    _shared_sessions: dict[str, ProjectSessions] = field(default_factory=dict)
    """Open sessions, by settings. Tasks with equal settings share them."""
    _unfinished_count_by_settings: Counter[str] = field(default_factory=Counter)
    """Number of unfinished tasks, keyed like `_shared_sessions`."""
    _opening_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _end_reason: BatchEnd = "done"
    _message: str = ""
    _exit_code: int = 0
    _blocked_reason: str = ""
    """Why a task could not be resumed; empty if all could."""
    _finished_cost: float = 0.0
    """Cost of finished runs in US dollars."""

    async def run(self) -> BatchResult:
        """Run the unfinished tasks, starting with those that an earlier run had begun."""
        results = self.journal.results
        self._finished_cost = sum(_result_cost(results[task.id]) for task in self.tasks if task.id in results)
        unfinished = [task for task in self.tasks if task.id not in results]
        pending = iter(sorted(unfinished, key=lambda task: task.id not in self.journal.started_tasks))
        self._unfinished_count_by_settings = Counter(task.options_key for task in unfinished)
        if unfinished or self.worktrees is not None:
            await self._run_all(pending, min(self.max_concurrent_tasks, len(unfinished)))
        return self._build_result()

    async def _run_all(self, pending: Iterator[BatchTask], worker_count: int) -> None:
        try:
            await self.store_sessions.open_library()
            await self._remove_leftover_worktrees()
            with stop_on_signals(self.interrupt):
                async with asyncio.TaskGroup() as group:
                    for _ in range(worker_count):
                        group.create_task(self._run_worker(pending))
        finally:
            for sessions in (*self._shared_sessions.values(), self.store_sessions):
                await sessions.close()

    async def _remove_leftover_worktrees(self) -> None:
        """Remove worktrees of finished tasks that a killed run left behind. They are kept if Git fails."""
        results, started_tasks = self.journal.results, self.journal.started_tasks
        finished_tasks = (
            (task, started_tasks[task.id].session_id)
            for task in self.tasks
            if task.id in results and task.id in started_tasks
        )
        for task, session_id in self.worktrees.leftover_tasks(finished_tasks) if self.worktrees is not None else ():
            if self.worktrees is not None and "commit" in results[task.id]:
                with suppress(AgentError, GitError):
                    root = self.open_sessions(task, None).root
                    worktree = await asyncio.to_thread(self.worktrees.enter, task, session_id, root)
                    await asyncio.to_thread(self.worktrees.remove, worktree, results[task.id])

    def interrupt(self) -> None:
        """Interrupt all running tasks. The next run of the batch resumes them."""
        self._record_stop("interrupted", 130)
        self._interrupt_running()

    @property
    def cost(self) -> float:
        """Cost so far in US dollars, excluding requests with unknown prices."""
        return self._finished_cost + sum(run.cost for run in self.running_tasks)

    async def _run_worker(self, pending: Iterator[BatchTask]) -> None:
        """Run tasks one after another, until none are left or the batch ends."""
        while self._end_reason == "done" and (task := next(pending, None)) is not None:
            if self._is_over_budget():
                self._record_stop("cost_limit", 6)
                return
            try:
                await self._run_task(task)
            except OSError as error:
                self._record_stop(
                    "stopped", 1, f"cannot write `{self.journal.results_path}`: {error.strerror or error}"
                )
                self._interrupt_running()

    async def _run_task(self, task: BatchTask) -> None:
        started_task = self.journal.started_tasks.get(task.id)
        is_resumed = started_task is not None and started_task.digest == task.digest
        session_id = started_task.session_id if started_task is not None and is_resumed else secrets.token_hex(ID_BYTES)
        run = TaskRun(
            task, session_id, was_interrupted=task.id in self.journal.interrupted_ids, should_stop=self._is_over_budget
        )
        run.max_time = task.options.get("max_time", self.max_time)
        self.running_tasks.append(run)
        try:
            if not is_resumed:
                await asyncio.to_thread(self.journal.record_start, task, session_id)
            self.progress.begin(run, is_resumed=is_resumed)
            worktree = await self._run_in_sessions(run)
        finally:
            self.running_tasks.remove(run)
            self._finished_cost += run.cost
        self._blocked_reason = run.blocked_reason or self._blocked_reason
        if run.batch_problem:
            self._record_stop("stopped", run.outcome.exit_code, run.batch_problem)
        is_batch_limit = run.outcome.stop_reason == "cost_limit" and self._is_over_budget()
        if run.is_done and not is_batch_limit:
            await asyncio.to_thread(self._finish_task, run, worktree)
        self.progress.end(run)

    async def _run_in_sessions(self, run: TaskRun) -> Worktree | None:
        """Run a task, and return the worktree that it used, if any."""
        worktree = None
        try:
            sessions = await self._open_shared_sessions(run.task)
            if self.worktrees is None:
                await run.run(sessions, partial(self.progress.show, run))
            else:
                worktree = await asyncio.to_thread(self.worktrees.enter, run.task, run.session_id, sessions.root)
                worktree_sessions = self.open_sessions(run.task, worktree.folder)
                try:
                    await run.run(worktree_sessions, partial(self.progress.show, run))
                finally:
                    await worktree_sessions.close()
        except AgentError as error:
            run.outcome.record_failure(error.code, str(error), error.exit_code)
        finally:
            await self._release_sessions(run.task)
        return worktree

    async def _open_shared_sessions(self, task: BatchTask) -> ProjectSessions:
        """Return open sessions for a task; tasks with equal settings share them. Raises `AgentError`."""
        async with self._opening_lock:
            if task.options_key not in self._shared_sessions:
                sessions = self.open_sessions(task, None)
                try:
                    await sessions.open_library()
                except AgentError:
                    await sessions.close()
                    raise
                self._shared_sessions[task.options_key] = sessions
            return self._shared_sessions[task.options_key]

    async def _release_sessions(self, task: BatchTask) -> None:
        self._unfinished_count_by_settings[task.options_key] -= 1
        if (
            self._unfinished_count_by_settings[task.options_key] <= 0
            and (sessions := self._shared_sessions.pop(task.options_key, None)) is not None
        ):
            await sessions.close()

    def _finish_task(self, run: TaskRun, worktree: Worktree | None) -> None:
        """Write the result of a task. If Git fails, the worktree is kept and the result contains the error."""
        result = run.build_result()
        if self.worktrees is None or worktree is None:
            self.journal.record_result(run.task, result)
            return
        worktree_field = {"worktree": str(worktree.path)}
        try:
            changes = self.worktrees.commit_changes(run.task, worktree)
            self.journal.record_result(run.task, {**result, **changes})
            self.worktrees.remove(worktree, changes)
        except GitError as error:
            if run.task.id not in self.journal.results:
                self.journal.record_result(run.task, {**result, **worktree_field, "worktree_error": str(error)})

    def _interrupt_running(self) -> None:
        if self.running_tasks:
            with suppress(OSError):  # the disk is full, which is reported when a result cannot be written
                self.journal.record_interruption(*(run.task.id for run in self.running_tasks))
        for run in self.running_tasks:
            run.stopper.request_stop()

    def _is_over_budget(self) -> bool:
        return self.max_cost is not None and self.cost >= self.max_cost

    def _record_stop(self, end: BatchEnd, exit_code: int, message: str = "") -> None:
        """Start no more tasks. Only the first reason for stopping is reported."""
        if self._end_reason == "done":
            self._end_reason, self._exit_code, self._message = end, exit_code, message

    def _build_result(self) -> BatchResult:
        results = [self.journal.results[task.id] for task in self.tasks if task.id in self.journal.results]
        answered_count = sum(result["exit_code"] == 0 for result in results)
        failed_count, unfinished_count = len(results) - answered_count, len(self.tasks) - len(results)
        if unfinished_count and self._end_reason == "done":
            if self._is_over_budget():
                self._record_stop("cost_limit", 6)
            else:
                self._record_stop("stopped", 1, self._blocked_reason)
        exit_code = self._exit_code or (1 if failed_count else 0)
        return BatchResult(
            self._end_reason,
            len(self.tasks),
            answered_count,
            failed_count,
            unfinished_count,
            round(self.cost, 6),
            self._message,
            exit_code,
        )


def _result_cost(result: Mapping[str, Any]) -> float:
    """Return the cost of a task in US dollars; 0 if it is unknown."""
    match result:
        case {"usage": {"cost": int() | float() as cost}}:
            return float(cost)
        case _:
            return 0.0
