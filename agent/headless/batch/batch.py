"""Runs the tasks of a file concurrently, each once, within one budget.

Each task has a session in the store. If the batch is killed or stopped, the next run resumes the sessions of unfinished
tasks: no prompt is sent twice, no call is run twice, and an existing answer is used as the result. All tasks run in
this process, since most of the time is spent waiting for models."""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.batch.journal import BatchJournal
from ebbtide.agent.headless.batch.task_run import TaskRun
from ebbtide.agent.headless.batch.tasks import BatchTask
from ebbtide.agent.headless.batch.worktrees import BatchWorktrees
from ebbtide.agent.headless.stop import interrupted_by_signals
from ebbtide.agent.sessions import ID_BYTES, Sessions
from ebbtide.tools.process.git import GitError
from ebbtide.tools.process.git_worktrees import Worktree

BatchEnd: TypeAlias = Literal["done", "interrupted", "cost_limit", "stopped"]


class BatchProgress(Protocol):
    """Receives the progress of a batch."""

    def begin(self, run: TaskRun, *, goes_on: bool) -> None: ...

    def show(self, run: TaskRun, event: Event) -> None: ...

    def end(self, run: TaskRun) -> None: ...


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outcome of a batch, including earlier runs of it."""

    end: BatchEnd
    tasks: int
    answered: int
    """Tasks that ended with exit code 0."""
    failed: int
    """Tasks that ended with another exit code."""
    left: int
    """Unfinished tasks."""
    cost: float
    """Cost of all tasks in US dollars, as far as prices are known."""
    message: str
    """Why the batch stopped early; empty if it did not."""
    exit_code: int


@dataclass(eq=False)
class Batch:
    """The tasks of a file and their state."""

    tasks: Sequence[BatchTask]
    journal: BatchJournal
    sessions: Callable[[BatchTask, Path | None], Sessions]
    """Opens the sessions for a task, in its own folder or in the given one; the caller closes them. Raises
    `AgentError`."""
    store: Sessions
    """Keeps the store open during the batch, since opening it takes long."""
    progress: BatchProgress
    jobs: int
    """Number of tasks that run at the same time."""
    max_cost: float | None = None
    """Limit in US dollars for all tasks, including earlier runs."""
    worktrees: BatchWorktrees | None = None
    """Set if each task gets its own worktree."""
    max_time: float | None = None
    """Default time limit of a task in seconds."""
    running: list[TaskRun] = field(default_factory=list)
    _shared: dict[str, Sessions] = field(default_factory=dict)
    """Sessions shared by tasks with the same settings."""
    _users: Counter[str] = field(default_factory=Counter)
    """Number of unfinished tasks that use each of them."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _end: BatchEnd = "done"
    _message: str = ""
    _exit_code: int = 0
    _blocked_reason: str = ""
    """Why a task could not be resumed; empty if all could."""
    _spent: float = 0.0
    """Cost of finished runs in US dollars."""

    async def run(self) -> BatchResult:
        """Run the unfinished tasks; those already begun come first."""
        done = self.journal.results
        self._spent = sum(_cost_of(done[task.id]) for task in self.tasks if task.id in done)
        left = [task for task in self.tasks if task.id not in done]
        waiting = iter(sorted(left, key=lambda task: task.id not in self.journal.begun))
        self._users = Counter(task.settings for task in left)
        if left or self.worktrees is not None:
            await self._do_all(waiting, min(self.jobs, len(left)))
        return self._result()

    async def _do_all(self, waiting: Iterator[BatchTask], jobs: int) -> None:
        try:
            await self.store.library()
            await self._remove_leftover_worktrees()
            with interrupted_by_signals(self.interrupt):
                async with asyncio.TaskGroup() as group:
                    for _ in range(jobs):
                        group.create_task(self._work(waiting))
        finally:
            for sessions in (*self._shared.values(), self.store):
                await sessions.close()

    async def _remove_leftover_worktrees(self) -> None:
        """Remove the worktrees of finished tasks that a kill has left behind. If Git fails, they stay."""
        done, begun = self.journal.results, self.journal.begun
        known = ((task, begun[task.id].session) for task in self.tasks if task.id in done and task.id in begun)
        for task, session in self.worktrees.leftover_tasks(known) if self.worktrees is not None else ():
            if self.worktrees is not None and "commit" in done[task.id]:
                with suppress(AgentError, GitError):
                    root = self.sessions(task, None).root
                    worktree = await asyncio.to_thread(self.worktrees.enter, task, session, root)
                    await asyncio.to_thread(self.worktrees.remove, worktree, done[task.id])

    def interrupt(self) -> None:
        """Interrupt all running tasks. The next run of the batch resumes them."""
        self._stop("interrupted", 130)
        self._interrupt_running()

    @property
    def cost(self) -> float:
        """Cost in US dollars, as far as prices are known."""
        return self._spent + sum(run.cost for run in self.running)

    async def _work(self, waiting: Iterator[BatchTask]) -> None:
        """Run tasks one after another, until none are left or the batch ends."""
        while self._end == "done" and (task := next(waiting, None)) is not None:
            if self._is_spent():
                self._stop("cost_limit", 6)
                return
            try:
                await self._do(task)
            except OSError as error:
                self._stop("stopped", 1, f"cannot write `{self.journal.output}`: {error.strerror or error}")
                self._interrupt_running()

    async def _do(self, task: BatchTask) -> None:
        begun = self.journal.begun.get(task.id)
        goes_on = begun is not None and begun.digest == task.digest
        id = begun.session if begun is not None and goes_on else secrets.token_hex(ID_BYTES)
        run = TaskRun(task, id, was_stopped=task.id in self.journal.stopped, is_soon_over=self._is_spent)
        run.max_time = task.options.get("max_time", self.max_time)
        self.running.append(run)
        try:
            if not goes_on:
                await asyncio.to_thread(self.journal.begin, task, id)
            self.progress.begin(run, goes_on=goes_on)
            worktree = await self._in_sessions(run)
        finally:
            self.running.remove(run)
            self._spent += run.cost
        self._blocked_reason = run.blocked_reason or self._blocked_reason
        if run.obstacle:
            self._stop("stopped", run.outcome.exit_code, run.obstacle)
        is_of_batch = run.outcome.stop_reason == "cost_limit" and self._is_spent()
        if run.is_done and not is_of_batch:
            await asyncio.to_thread(self._finish, run, worktree)
        self.progress.end(run)

    async def _in_sessions(self, run: TaskRun) -> Worktree | None:
        """Run a task; return the worktree that was used, if any."""
        worktree = None
        try:
            sessions = await self._sessions_of(run.task)
            if self.worktrees is None:
                await run.work(sessions, partial(self.progress.show, run))
            else:
                worktree = await asyncio.to_thread(self.worktrees.enter, run.task, run.session, sessions.root)
                own = self.sessions(run.task, worktree.folder)
                try:
                    await run.work(own, partial(self.progress.show, run))
                finally:
                    await own.close()
        except AgentError as error:
            run.outcome.fail(error.code, str(error), error.exit_code)
        finally:
            await self._done_with(run.task)
        return worktree

    async def _sessions_of(self, task: BatchTask) -> Sessions:
        """Return open sessions, shared by tasks with the same settings. Raises `AgentError`."""
        async with self._opening:
            if task.settings not in self._shared:
                sessions = self.sessions(task, None)
                try:
                    await sessions.library()
                except AgentError:
                    await sessions.close()
                    raise
                self._shared[task.settings] = sessions
            return self._shared[task.settings]

    async def _done_with(self, task: BatchTask) -> None:
        self._users[task.settings] -= 1
        if self._users[task.settings] <= 0 and (sessions := self._shared.pop(task.settings, None)) is not None:
            await sessions.close()

    def _finish(self, run: TaskRun, worktree: Worktree | None) -> None:
        """Write the result. If Git fails, the worktree stays and the result contains the error."""
        result = run.result()
        if self.worktrees is None or worktree is None:
            self.journal.finish(run.task, result)
            return
        place = {"worktree": str(worktree.place)}
        try:
            changes = self.worktrees.result(run.task, worktree)
            self.journal.finish(run.task, {**result, **changes})
            self.worktrees.remove(worktree, changes)
        except GitError as error:
            if run.task.id not in self.journal.results:
                self.journal.finish(run.task, {**result, **place, "worktree_error": str(error)})

    def _interrupt_running(self) -> None:
        if self.running:
            with suppress(OSError):  # the disk is full; reported when a result cannot be written
                self.journal.stop(*(run.task.id for run in self.running))
        for run in self.running:
            run.stop.request()

    def _is_spent(self) -> bool:
        return self.max_cost is not None and self.cost >= self.max_cost

    def _stop(self, end: BatchEnd, exit_code: int, message: str = "") -> None:
        """Start no more tasks. The first reason is the one reported."""
        if self._end == "done":
            self._end, self._exit_code, self._message = end, exit_code, message

    def _result(self) -> BatchResult:
        results = [self.journal.results[task.id] for task in self.tasks if task.id in self.journal.results]
        answered = sum(result["exit_code"] == 0 for result in results)
        failed, left = len(results) - answered, len(self.tasks) - len(results)
        if left and self._end == "done":
            if self._is_spent():
                self._stop("cost_limit", 6)
            else:
                self._stop("stopped", 1, self._blocked_reason)
        code = self._exit_code or (1 if failed else 0)
        return BatchResult(self._end, len(self.tasks), answered, failed, left, round(self.cost, 6), self._message, code)


def _cost_of(result: Mapping[str, Any]) -> float:
    """Cost in US dollars, as far as known."""
    match result:
        case {"usage": {"cost": int() | float() as cost}}:
            return float(cost)
        case _:
            return 0.0
