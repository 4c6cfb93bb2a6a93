"""The models, agents and MCP servers that answer questions from a session's hooks."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import TypeAlias

from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import AgentActivity, Event, ReplyFinished, TurnFailed, TurnFinished
from ebbtide.agent.hooks.judges import ANSWER_FORMAT
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.fallbacks import ConnectModel
from ebbtide.agent.providers.stream import stream_reply
from ebbtide.agent.session import Session
from ebbtide.agent.subagents.definitions import AgentDefinition, read_only_tool_names
from ebbtide.agent.subagents.role import resolve_model
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError

ComposeAgentSession: TypeAlias = Callable[[AgentDefinition, SessionContext, AsyncExitStack], Awaitable[Session]]

HOOK_PROMPT = (
    f"You answer questions for a hook of a coding agent: judge whether all is as it should be. {ANSWER_FORMAT}"
)
MAX_ANSWER_TOKENS = 1024
"""Maximum length of an answer, in tokens."""


class SessionHookBackends:
    """Answers questions from one session's hooks. The cost of the answers counts as part of the session's cost."""

    def __init__(
        self, context: SessionContext, connect_model: ConnectModel, compose_session: ComposeAgentSession
    ) -> None:
        self._context, self._connect, self._compose = context, connect_model, compose_session

    async def ask_model(self, prompt: str, model: str) -> str:
        """Ask the given model, or the session's own model if `model` is empty, and return the answer. Raises
        `ValueError`."""
        session_provider = self._context.model.provider
        session_model = self._context.model.facts.id
        turn = self._context.turn
        chosen_model = resolve_model(model or None, session_model)
        try:
            provider = (
                session_provider if chosen_model == session_model else (await self._connect(chosen_model)).provider
            )
            try:
                max_output_tokens = min(provider.window.output, MAX_ANSWER_TOKENS)
                request = Request(
                    HOOK_PROMPT, (User((Text(prompt),)),), (), max_output_tokens, turn.recorder.session_id
                )
                reply = await stream_reply(provider, request, turn.interrupt, self._emit_cost)
            finally:
                if provider is not session_provider:
                    await provider.close()
        except AgentError as error:
            raise ValueError(str(error)) from error
        return reply.message.text

    async def ask_agent(self, prompt: str, model: str) -> str:
        """Ask a read-only agent, whose own calls run no hooks, and return its answer. Raises `ValueError`."""
        definition = AgentDefinition(
            "hook",
            "",
            HOOK_PROMPT,
            read_only_tool_names(),
            model=model or None,
            most_permissive_mode="plan",
            runs_hooks=False,
        )
        answer = ""
        try:
            async with AsyncExitStack() as exit_stack:
                session = await self._compose(definition, self._context, exit_stack)
                exit_stack.push_async_callback(session.close)
                async with aclosing(session.send(prompt)) as events:
                    async for event in events:
                        match event:
                            case ReplyFinished():
                                self._context.turn.emit(AgentActivity(session.id, "", "hook", 0.0, event))
                            case TurnFinished(text=text):
                                answer = text
                            case TurnFailed(message=message):
                                raise ValueError(message)
                            case _:
                                pass
        except AgentError as error:
            raise ValueError(str(error)) from error
        return answer

    async def call_server_tool(self, server: str, tool: str, arguments: Mapping[str, object]) -> tuple[str, bool]:
        name = f"mcp__{server}__{tool}"
        server_tool = self._context.window.tools.server_tools.callable_tools.get(name)
        if server_tool is None:
            raise ValueError(f"no server offers `{name}`")
        try:
            result = await server_tool.run(arguments, replace(self._context.calls.runner.workspace, call_id="hook"))
        except ToolError as error:
            return str(error), True
        return result.text, result.has_failed

    def _emit_cost(self, event: Event) -> None:
        """Forward only the events that report a question's cost."""
        if isinstance(event, ReplyFinished):
            self._context.turn.emit(replace(event, purpose="hook"))
