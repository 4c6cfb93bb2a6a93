"""Starts the sub-agents of one session, a limited number at a time, and stops them individually."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import PermissionAnswered
from ebbtide.agent.events.session import (
    AgentActivity,
    CallDelta,
    ContextMeasured,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolProgress,
)
from ebbtide.agent.events.subagents import AgentFinished, AgentStarted, RunningAgent
from ebbtide.agent.messages import Note
from ebbtide.agent.session import Session
from ebbtide.agent.subagents.agent_result import AgentProgress, create_finished_event, result_texts
from ebbtide.agent.subagents.definitions import AgentDefinition, find_definition
from ebbtide.agent.view.stubs import HOOK_NOTE_PREFIX
from ebbtide.agent.window.session_context import CallContext, SessionContext, TurnContext
from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.task import MAX_LISTED_AGENTS

MAX_CONCURRENT_AGENTS = 10
UNFORWARDED_EVENTS = (TextDelta, ReasoningDelta, CallDelta, ToolProgress, ContextMeasured)
"""Frequent events that are not forwarded to the parent session."""

ComposeAgentSession: TypeAlias = Callable[[AgentDefinition, SessionContext, AsyncExitStack], Awaitable[Session]]
"""Creates an agent's session. Raises `AgentError`."""


@dataclass(slots=True)
class _Delegation:
    """A queued or running agent."""

    status: RunningAgent
    started_at: float
    progress: AgentProgress = field(default_factory=AgentProgress)
    session: Session | None = None
    """The sub-agent's session; None while it is queued."""
    stop_request: Interrupt = field(default_factory=Interrupt)
    """Set when the user stops the agent."""


class SessionAgents:
    """The sub-agents of the session whose `SessionContext` is `parent`."""

    def __init__(
        self,
        get_definitions: Callable[[], Sequence[AgentDefinition]],
        max_concurrent: int,
        compose_session: ComposeAgentSession,
        parent: SessionContext,
    ) -> None:
        """`get_definitions` returns the agents that may be started now."""
        self._get_definitions = get_definitions
        self._compose_session = compose_session
        self._semaphore = asyncio.Semaphore(max(1, min(max_concurrent, MAX_CONCURRENT_AGENTS)))
        self._delegation_by_call: dict[str, _Delegation] = {}
        self._on_change: Callable[[], None] | None = None
        self._parent = parent

    @property
    def running(self) -> Sequence[RunningAgent]:
        """The agents that are running or queued."""
        now = time.monotonic()
        return tuple(
            replace(delegation.status, seconds=now - delegation.started_at, tokens=delegation.progress.usage.total)
            for delegation in self._delegation_by_call.values()
        )

    def stop(self, call_id: str) -> None:
        """Ask the agent of a call to stop. A running agent returns its results so far; a queued one does not start."""
        if (delegation := self._delegation_by_call.get(call_id)) is not None:
            delegation.stop_request.request()
            if delegation.session is not None:
                delegation.session.interrupt()
            self._notify_change()

    def set_watcher(self, on_change: Callable[[], None] | None) -> None:
        self._on_change = on_change

    def _notify_change(self) -> None:
        if self._on_change is not None:
            self._on_change()

    async def delegate(self, name: str, prompt: str, workspace: Workspace) -> Result:
        """Run an agent and return its result. Raises `ToolError` if it cannot be started."""
        definitions = self._get_definitions()
        definition = find_definition(definitions, name)
        if definition is None:
            names = [agent.name for agent in definitions]
            raise ToolError(f"there is no agent `{name[:80]}`; available: {join_limited(names, MAX_LISTED_AGENTS)}")
        name = definition.name
        if self._semaphore.locked():
            workspace.on_progress("waiting for another agent to finish\n")
        call_id = workspace.call_id
        delegation = self._delegation_by_call[call_id] = _Delegation(
            RunningAgent(call_id, name, prompt), time.monotonic()
        )
        try:
            async with AsyncExitStack() as exit_stack:
                if await delegation.stop_request.race(self._take_slot(exit_stack)) is None:
                    raise ToolError("the user stopped the agent before it started: ask before you start it again")
                try:
                    session = await self._compose_session(definition, self._parent, exit_stack)
                except AgentError as error:
                    raise ToolError(f"the agent could not be started: {error}") from error
                exit_stack.push_async_callback(session.close)
                finished_event = await self._run_agent(session, delegation)
        finally:
            self._delegation_by_call.pop(call_id, None)
            self._notify_change()
        text, full_text = result_texts(finished_event)
        changed = tuple(workspace.root / path for path in finished_event.changed)
        return Result(
            text, full_text=full_text or None, changed_files=changed, has_failed=finished_event.end == "failed"
        )

    async def _take_slot(self, exit_stack: AsyncExitStack) -> bool:
        """Wait until another agent may run. The slot is released when `exit_stack` closes."""
        await self._semaphore.acquire()
        exit_stack.callback(self._semaphore.release)
        return True

    async def _run_agent(self, session: Session, delegation: _Delegation) -> AgentFinished:
        turn = self._parent.turn
        agent_id, progress, started_at = session.id, delegation.progress, time.monotonic()
        call_id, name, prompt = delegation.status.call_id, delegation.status.name, delegation.status.prompt
        turn.emit(AgentStarted(agent_id, call_id, name, session.model, session.mode, prompt))
        delegation.status = replace(delegation.status, agent=agent_id)
        delegation.session = session
        delegation.started_at = started_at
        self._notify_change()
        project = Path(turn.recorder.project).name or "_"

        def report(event: Event) -> None:
            progress.record(event)
            if isinstance(event, PermissionAnswered):
                turn.emit(replace(event, id=f"{event.id}-{agent_id}"))
            elif not isinstance(event, UNFORWARDED_EVENTS):
                turn.emit(AgentActivity(agent_id, call_id, name, round(time.monotonic() - started_at, 1), event))
                self._notify_change()

        session.set_listener(report)
        try:
            next_prompt = "" if delegation.stop_request.is_requested() else prompt
            was_continued = False
            attachments = await _run_start_hooks(session, name, turn) if next_prompt else ()
            while next_prompt and not delegation.stop_request.is_requested():
                async with aclosing(session.send(next_prompt, attachments)) as events:
                    async for event in events:
                        report(event)
                next_prompt = await _run_stop_hooks(
                    progress, session, name, self._parent.calls, turn, was_continued=was_continued
                )
                was_continued, attachments = True, ()
        finally:
            finished_event = create_finished_event(
                progress, agent_id, call_id, name, project, time.monotonic() - started_at
            )
            turn.emit(finished_event)
        return finished_event


async def _run_start_hooks(session: Session, name: str, turn: TurnContext) -> tuple[Note, ...]:
    """Run `SubagentStart` hooks, and return the context that they add, as notes."""
    context = await turn.hooks.run_subagent_start(session.id, name) if turn.hooks is not None else ""
    return (Note(f"{HOOK_NOTE_PREFIX}`SubagentStart` notes:]\n{context}"),) if context else ()


async def _run_stop_hooks(
    progress: AgentProgress, session: Session, name: str, calls: CallContext, turn: TurnContext, *, was_continued: bool
) -> str:
    """Run `SubagentStop` hooks, and return why the agent should continue after its answer. Empty if it may stop, or if
    it has already continued once."""
    hooks = turn.hooks
    if hooks is None or progress.end != "answered":
        return ""
    messages = calls.runner.secrets.hide_in_messages(session.history.messages)
    reason = await hooks.ask_before_subagent_stop(
        session.id, name, progress.answer, messages, was_continued=was_continued
    )
    return "" if was_continued else reason
