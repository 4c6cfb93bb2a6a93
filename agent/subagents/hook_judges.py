"""Models, agents and servers that answer the questions of a session's hooks."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import AgentActivity, Event, ReplyFinished, TurnFailed, TurnFinished
from ebbtide.agent.hooks.judges import ANSWER
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.fallbacks import Connect
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.session import Session
from ebbtide.agent.subagents.definitions import READING, AgentDefinition
from ebbtide.agent.subagents.role import model_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError

Compose: TypeAlias = Callable[[AgentDefinition, SessionContext, AsyncExitStack], Awaitable[Session]]

JUDGE = f"You judge for a hook of a coding agent whether what happens is as it should be. {ANSWER}"
MAX_ANSWER_TOKENS = 1024
"""Maximum tokens of an answer."""


class HookJudges:
    """The judges of one session; their costs are added to its own."""

    def __init__(self, env: SessionContext, connect: Connect, compose: Compose) -> None:
        self._env, self._connect, self._compose = env, connect, compose

    async def model(self, question: str, model: str) -> str:
        """Ask the session's own model, or the given one if it is available."""
        env, usual = self._env, self._env.provider.facts.id
        named = model_of(model or None, usual)
        try:
            provider = env.provider if named == usual else (await self._connect(named)).provider
            try:
                tokens = min(provider.window.output, MAX_ANSWER_TOKENS)
                request = Request(JUDGE, (User((Text(question),)),), (), tokens, env.recorder.session)
                reply = await stream_reply(provider, request, env.interrupt, self._quietly)
            finally:
                if provider is not env.provider:
                    await provider.close()
        except AgentError as error:
            raise ValueError(str(error)) from error
        return reply.message.text

    async def agent(self, question: str, model: str) -> str:
        """Ask a read-only agent, whose own calls run no hooks."""
        definition = AgentDefinition("hook", "", JUDGE, READING, model=model or None, mode="plan", runs_hooks=False)
        answer = ""
        try:
            async with AsyncExitStack() as closing:
                session = await self._compose(definition, self._env, closing)
                closing.push_async_callback(session.close)
                async with aclosing(session.send(question)) as events:
                    async for event in events:
                        match event:
                            case ReplyFinished():
                                self._env.emit(AgentActivity(session.id, "", "hook", 0.0, event))
                            case TurnFinished(text=text):
                                answer = text
                            case TurnFailed(message=message):
                                raise ValueError(message)
                            case _:
                                pass
        except AgentError as error:
            raise ValueError(str(error)) from error
        return answer

    async def server(self, server: str, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        name = f"mcp__{server}__{tool}"
        found = self._env.server_tools.callable.get(name)
        if found is None:
            raise ValueError(f"no server offers `{name}`")
        try:
            result = await found.run(arguments, replace(self._env.call_runner.workspace, call="hook"))
        except ToolError as error:
            return str(error), True
        return result.text, result.failed

    def _quietly(self, event: Event) -> None:
        """Emit only the cost of a question."""
        if isinstance(event, ReplyFinished):
            self._env.emit(replace(event, purpose="hook"))
