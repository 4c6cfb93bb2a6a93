"""Starts the sub-agents of one session, a few at a time, and stops them individually."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import field, replace
from pathlib import Path
from typing import TypeAlias

from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.mask import HOOK_NOTE_PREFIX
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
from ebbtide.agent.subagents.definitions import AgentDefinition, find_definition
from ebbtide.agent.subagents.hand_back import AgentWork, finished_event, hand_back_text
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import Result, ToolError, Workspace
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.task import MAX_LISTED

MAX_CONCURRENT_AGENTS = 10
HIDDEN_EVENTS = (TextDelta, ReasoningDelta, CallDelta, ToolProgress, ContextMeasured)
"""Frequent events that are not passed on to front ends."""

Compose: TypeAlias = Callable[[AgentDefinition, SessionContext, AsyncExitStack], Awaitable[Session]]
"""Creates the session of an agent. Raises `AgentError`."""


@dataclass(slots=True)
class _Delegation:
    """A queued or running agent."""

    status: RunningAgent
    began: float
    work: AgentWork = field(default_factory=AgentWork)
    session: Session | None = None
    """None while it is queued."""
    wish: Interrupt = field(default_factory=Interrupt)
    """The request to stop it."""


class SessionAgents:
    """The sub-agents of the session whose `SessionContext` is `parent`."""

    def __init__(
        self,
        definitions: Callable[[], Sequence[AgentDefinition]],
        concurrent: int,
        compose: Compose,
        parent: SessionContext,
    ) -> None:
        """`definitions` returns the agents that may be started now."""
        self._definitions = definitions
        self._compose = compose
        self._places = asyncio.Semaphore(max(1, min(concurrent, MAX_CONCURRENT_AGENTS)))
        self._sent: dict[str, _Delegation] = {}
        self._watcher: Callable[[], None] | None = None
        self._parent = parent

    @property
    def running(self) -> Sequence[RunningAgent]:
        now = time.monotonic()
        return tuple(
            replace(one.status, seconds=now - one.began, tokens=one.work.usage.total) for one in self._sent.values()
        )

    def stop(self, call: str) -> None:
        """Stop the agent of a call soon: it hands back what it has. One that is still queued does not start."""
        if (sent := self._sent.get(call)) is not None:
            sent.wish.request()
            if sent.session is not None:
                sent.session.interrupt()
            self._notify_watcher()

    def watch(self, changed: Callable[[], None] | None) -> None:
        self._watcher = changed

    def _notify_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher()

    async def delegate(self, name: str, prompt: str, workspace: Workspace) -> Result:
        """Run an agent and return its result. Raises `ToolError` if it cannot be started."""
        definitions = self._definitions()
        definition = find_definition(definitions, name)
        if definition is None:
            names = [each.name for each in definitions]
            raise ToolError(f"there is no agent `{name[:80]}`; there are {join_limited(names, MAX_LISTED)}")
        name = definition.name
        if self._places.locked():
            workspace.progress("waiting for another agent to finish\n")
        call = workspace.call
        sent = self._sent[call] = _Delegation(RunningAgent(call, name, prompt), time.monotonic())
        try:
            async with AsyncExitStack() as closing:
                if await sent.wish.race(self._place(closing)) is None:
                    raise ToolError("the user stopped the agent before it began: ask before you send it off again")
                try:
                    session = await self._compose(definition, self._parent, closing)
                except AgentError as error:
                    raise ToolError(f"the agent could not be sent off: {error}") from error
                closing.push_async_callback(session.close)
                done = await self._work(session, sent, self._parent)
        finally:
            self._sent.pop(call, None)
            self._notify_watcher()
        text, whole = hand_back_text(done)
        changed = tuple(workspace.root / path for path in done.changed)
        return Result(text, uncut=whole or None, changed=changed, failed=done.end == "failed")

    async def _place(self, closing: AsyncExitStack) -> bool:
        """Wait for a free place, which is released when `closing` closes."""
        await self._places.acquire()
        closing.callback(self._places.release)
        return True

    async def _work(self, session: Session, sent: _Delegation, parent: SessionContext) -> AgentFinished:
        id, work, began = session.id, sent.work, time.monotonic()
        call, name, prompt = sent.status.call_id, sent.status.name, sent.status.prompt
        parent.emit(AgentStarted(id, call, name, session.model, session.mode, prompt))
        sent.status, sent.session, sent.began = replace(sent.status, agent=id), session, began
        self._notify_watcher()
        project = Path(parent.recorder.project).name or "_"

        def tell(event: Event) -> None:
            work.take(event)
            if isinstance(event, PermissionAnswered):
                parent.emit(replace(event, id=f"{event.id}-{id}"))
            elif not isinstance(event, HIDDEN_EVENTS):
                parent.emit(AgentActivity(id, call, name, round(time.monotonic() - began, 1), event))
                self._notify_watcher()

        session.listen(tell)
        try:
            text, is_going_on = "" if sent.wish.is_requested() else prompt, False
            beside = await _hook_notes(session, name, parent) if text else ()
            while text:
                async with aclosing(session.send(text, beside)) as events:
                    async for event in events:
                        tell(event)
                text = await _objection(work, session, name, parent, is_going_on=is_going_on)
                is_going_on, beside = True, ()
        finally:
            done = finished_event(work, id, call, name, project, time.monotonic() - began)
            parent.emit(done)
        return done


async def _hook_notes(session: Session, name: str, parent: SessionContext) -> tuple[Note, ...]:
    """Return the notes of hooks for an agent that starts."""
    said = await parent.hooks.subagent_starts(session.id, name) if parent.hooks is not None else ""
    return (Note(f"{HOOK_NOTE_PREFIX}`SubagentStart` notes:]\n{said}"),) if said else ()


async def _objection(work: AgentWork, session: Session, name: str, parent: SessionContext, *, is_going_on: bool) -> str:
    """Return why hooks want an agent to continue after its answer; empty if they do not, or if it already continued
    once."""
    if parent.hooks is None or work.end != "answered":
        return ""
    said = parent.call_runner.secrets.messages(session.history.messages)
    reason = await parent.hooks.subagent_stops(session.id, name, work.answer, said, is_going_on=is_going_on)
    return "" if is_going_on else reason
