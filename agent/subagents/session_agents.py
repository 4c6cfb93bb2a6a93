"""The agents of one session: sent off, a few at a time, and ended one by one."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from agent.errors import AgentError
from agent.events.session import (
    AgentActivity,
    CallDelta,
    ContextMeasured,
    Event,
    PermissionAnswered,
    ReasoningDelta,
    TextDelta,
    ToolProgress,
)
from agent.events.subagents import AgentFinished, AgentStarted, RunningAgent
from agent.session import Session
from agent.subagents.definitions import AgentDefinition
from agent.subagents.hand_back import AgentWork, finished, told
from agent.window.env import Env
from tools.base import Result, ToolError, Workspace
from tools.lazy import dataclass
from tools.outputs.extent import listed
from tools.task import MOST_LISTED, Task

MOST_AT_ONCE = 10
UNTOLD = (TextDelta, ReasoningDelta, CallDelta, ToolProgress, ContextMeasured)
"""What happens so often that front ends are not told of it."""

Compose: TypeAlias = Callable[[AgentDefinition, Env, AsyncExitStack], Awaitable[Session]]
"""Makes the session of an agent. Raises `AgentError`."""


@dataclass(frozen=True, slots=True)
class _Running:
    shown: RunningAgent
    session: Session
    began: float


class SessionAgents:
    """They work for the session whose `Env` is `parent`, which is set as soon as it is there."""

    def __init__(self, definitions: Callable[[], Sequence[AgentDefinition]], concurrent: int, compose: Compose) -> None:
        """`definitions`: those that may be sent off now."""
        self._definitions = definitions
        self._compose = compose
        self._places = asyncio.Semaphore(max(1, min(concurrent, MOST_AT_ONCE)))
        self._running: dict[str, _Running] = {}
        self.parent: Env | None = None

    @property
    def tool(self) -> Task:
        """What the model sends them off with."""
        return Task({each.name: each.description for each in self._definitions()}, self.delegate)

    @property
    def running(self) -> Sequence[RunningAgent]:
        now = time.monotonic()
        return tuple(replace(one.shown, seconds=now - one.began) for one in self._running.values())

    def stop(self, agent: str) -> None:
        """Ends one of them, by its id, soon: it hands back what it has."""
        if agent in self._running:
            self._running[agent].session.interrupt()

    async def delegate(self, name: str, prompt: str, workspace: Workspace) -> Result:
        """What the agent hands back. Raises `ToolError` where it cannot be sent off."""
        assert self.parent is not None
        definitions = {definition.name: definition for definition in self._definitions()}
        if name not in definitions:
            raise ToolError(f"there is no agent `{name[:80]}`; there are {listed(list(definitions), MOST_LISTED)}")
        if self._places.locked():
            workspace.progress("waits until another agent is done\n")
        async with self._places, AsyncExitStack() as closing:
            try:
                session = await self._compose(definitions[name], self.parent, closing)
            except AgentError as error:
                raise ToolError(f"the agent could not be sent off: {error}") from error
            closing.push_async_callback(session.close)
            done = await self._work(session, name, prompt, workspace.call, self.parent)
        text, whole = told(done)
        changed = tuple(workspace.root / path for path in done.changed)
        return Result(text, uncut=whole or None, changed=changed, failed=done.end == "failed")

    async def _work(self, session: Session, name: str, prompt: str, call: str, parent: Env) -> AgentFinished:
        work, began, id = AgentWork(), time.monotonic(), session.id
        parent.emit(AgentStarted(id, call, name, session.model, session.mode, prompt))
        self._running[id] = _Running(RunningAgent(id, name, prompt, 0.0), session, began)
        project = Path(parent.recorder.project).name or "_"

        def tell(event: Event) -> None:
            work.take(event)
            if isinstance(event, PermissionAnswered):
                parent.emit(replace(event, id=f"{event.id}-{id}"))
            elif not isinstance(event, UNTOLD):
                parent.emit(AgentActivity(id, call, name, round(time.monotonic() - began, 1), event))

        session.listen(tell)
        try:
            text, is_going_on = prompt, False
            while text:
                async with aclosing(session.send(text)) as events:
                    async for event in events:
                        tell(event)
                text = await _objection(work, session, name, parent, is_going_on=is_going_on)
                is_going_on = True
        finally:
            del self._running[id]
            done = finished(work, id, call, name, project, time.monotonic() - began)
            parent.emit(done)
        return done


async def _objection(work: AgentWork, session: Session, name: str, parent: Env, *, is_going_on: bool) -> str:
    """Why hooks want an agent to go on that has answered; empty where it need not, and after it did so once."""
    if parent.hooks is None or work.end != "answered":
        return ""
    said = parent.call_runner.secrets.messages(session.history.messages)
    reason = await parent.hooks.subagent_stops(session.id, name, work.answer, said, is_going_on=is_going_on)
    return "" if is_going_on else reason
