"""Runs tasks for other agents: headless sessions with at most the user's own permissions."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import mcp_types as types

from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.options import PermissionMode, stricter_mode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.session import Event, ReplyFinished, StepStarted, ToolStarted
from ebbtide.agent.headless.result import RunOutcome, RunResult
from ebbtide.agent.headless.stop import RunStopper, stop_after
from ebbtide.agent.headless.turns import HeadlessTurns
from ebbtide.agent.logs.crash_reports import crash_error
from ebbtide.tools.base import ToolError
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tui.view.call_titles import call_title

OpenSessions: TypeAlias = Callable[[Config], ProjectSessions]
"""Opens the sessions of the server's folder with the given settings, for one task."""
ProgressCallback: TypeAlias = Callable[[float, str], Awaitable[None]]
"""Reports progress as an increasing number and the current activity."""

MAX_TASKS = 4
"""Maximum number of tasks running at a time."""
MAX_NAMED_ITEMS = 20
"""Maximum number of files, and of denied calls, listed in an answer."""
CLOSE_TIMEOUT_S = 10.0
"""How long interrupted tasks have to end cleanly, in seconds."""


class RunningTasks:
    """The running tasks. If a client cancels a task or disconnects, the task is interrupted cleanly."""

    def __init__(self, config: Config, open_sessions: OpenSessions) -> None:
        self._config = config
        self._open_sessions = open_sessions
        self._stoppers_by_task: dict[asyncio.Task[RunOutcome], RunStopper] = {}

    async def run(self, arguments: Mapping[str, Any], report_progress: ProgressCallback) -> types.CallToolResult:
        """Run a task, interrupting it if the call is cancelled. Raises `ToolError` or `AgentError` if the task cannot
        be started."""
        if len(self._stoppers_by_task) >= MAX_TASKS:
            raise ToolError(f"at most {MAX_TASKS} tasks can run at once; wait for one, or cancel it")
        stopper, progress = RunStopper(), _ProgressReporter(report_progress)
        # Use a separate asyncio task: cancelling the request must not cancel a session during its cleanup.
        session_task = asyncio.create_task(self._run_session(arguments, stopper, progress.record_event))
        self._stoppers_by_task[session_task] = stopper
        session_task.add_done_callback(self._stoppers_by_task.pop)
        report_task = asyncio.create_task(progress.report_changes())
        try:
            outcome = await asyncio.shield(session_task)
        except asyncio.CancelledError:
            stopper.request_stop()
            raise
        finally:
            report_task.cancel()
            with suppress(asyncio.CancelledError):
                await report_task
        return _tool_result(outcome)

    async def close(self) -> None:
        """Interrupt all tasks and wait until they end."""
        for stopper in self._stoppers_by_task.values():
            stopper.request_stop()
        running_tasks = {*self._stoppers_by_task}
        if running_tasks:
            _, unfinished_tasks = await asyncio.wait(running_tasks, timeout=CLOSE_TIMEOUT_S)
            for session_task in unfinished_tasks:
                session_task.cancel()
            await asyncio.gather(*unfinished_tasks, return_exceptions=True)

    async def _run_session(
        self, arguments: Mapping[str, Any], stopper: RunStopper, emit: Callable[[Event], None]
    ) -> RunOutcome:
        outcome = RunOutcome()
        sessions = self._open_sessions(self._narrowed_config(arguments))
        with stop_after(stopper, arguments.get("max_seconds")):
            try:
                await self._run_turns(sessions, arguments, outcome, stopper, emit)
            except UsageError:
                raise
            except AgentError as error:
                outcome.record_failure(error.code, str(error), error.exit_code)
            except Exception as error:  # noqa: BLE001  # unexpected errors of a task are reported here
                crash = crash_error(error, sessions.config.folders.logs)
                outcome.record_failure(crash.code, str(crash), crash.exit_code)
            finally:
                await sessions.close()
        if outcome.stop_reason == "interrupted":
            outcome.record_turn_end(stopper.cause)
        return outcome

    def _narrowed_config(self, arguments: Mapping[str, Any]) -> Config:
        """Restrict the user's settings further by the arguments."""
        mode: PermissionMode = stricter_mode(
            self._config.permission_mode, arguments.get("mode", self._config.permission_mode)
        )
        limits = [limit for limit in (self._config.max_turns, arguments.get("max_turns")) if limit is not None]
        return replace(self._config, permission_mode=mode, max_turns=min(limits, default=None))

    async def _run_turns(
        self,
        sessions: ProjectSessions,
        arguments: Mapping[str, Any],
        outcome: RunOutcome,
        stopper: RunStopper,
        emit: Callable[[Event], None],
    ) -> None:
        resume = await self._session_to_resume(sessions, arguments.get("session", ""))
        session = await stopper.interrupt.race(sessions.open(resume))
        if session is None:
            return outcome.mark_interrupted()
        outcome.session, outcome.mode, stopper.session = session.id, session.mode, session
        session.set_listener(emit)
        try:
            if stopper.interrupt.is_requested():
                outcome.mark_interrupted()
            else:
                await HeadlessTurns(session, outcome, emit, stopper).run_turn(arguments["prompt"])
        finally:
            await session.close()
        return None

    async def _session_to_resume(self, sessions: ProjectSessions, prefix: str) -> str | None:
        """Find the id of the session to resume. Sessions of other projects are allowed only if `recall.scope` is
        `all`."""
        if not prefix:
            return None
        info = await sessions.find_session(prefix)
        if sessions.config.recall_scope != "all" and info.project != str(sessions.config.project_folder):
            raise UsageError(f"session `{prefix}` belongs to another project; start the server there")
        return info.id


class _ProgressReporter:
    """Sends a task's progress as fast as the client reads it, skipping outdated updates."""

    def __init__(self, report: ProgressCallback) -> None:
        self._report = report
        self._has_changed = asyncio.Event()
        self._count, self._status = 0, ""

    def record_event(self, event: Event) -> None:
        match event:
            case StepStarted(step=step):
                self._set_status(f"step {step}")
            case ToolStarted(name=name, arguments=arguments):
                self._set_status(call_title(name, arguments))
            case ReplyFinished():
                self._set_status("")
            case _:
                pass

    def _set_status(self, text: str) -> None:
        self._count, self._status = self._count + 1, text or self._status
        self._has_changed.set()

    async def report_changes(self) -> None:
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            await self._report(float(self._count), self._status)


def _tool_result(outcome: RunOutcome) -> types.CallToolResult:
    result = outcome.result_so_far
    is_failure = result.stop_reason not in ("answered", "denied")
    text = "\n\n".join(filter(None, (result.result, f"[{'; '.join(_result_facts(result))}]")))
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=asdict(result), is_error=is_failure
    )


def _result_facts(result: RunResult) -> list[str]:
    facts = [result.stop_reason if result.error is None else f"{result.stop_reason}: {result.error.message}"]
    facts += [f"session {result.session}"] if result.session else []
    facts.append(pluralize(result.steps, "step"))
    facts += [f"changed: {join_limited(list(result.files_changed), MAX_NAMED_ITEMS)}"] if result.files_changed else []
    if result.denied:
        denied_calls = [f"{call.tool} ({call.rule})" for call in result.denied]
        facts.append(f"denied: {join_limited(denied_calls, MAX_NAMED_ITEMS)}")
    return facts
