"""Use an agent from a program. A session's questions can be answered by a function, and its tools can be functions."""

import asyncio
import inspect
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from ebbtide.agent.channel import Answer
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, UsageError
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.agent.events.session import Event
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.providers.keys import add_stored_keys
from ebbtide.agent.session import Session
from ebbtide.function_tool import FunctionTool, call_function, tool
from ebbtide.tools.base import ToolError

__all__ = [
    "Agent", "AgentError", "Answer", "AnswerQuestion", "Decision", "FunctionTool", "PlanDecision", "Question",
    "RunOutcome", "ToolError", "UsageError", "tool",
]  # fmt: skip

_log = logging.getLogger("ebbtide")

Question: TypeAlias = PermissionAsked | PlanSubmitted | QuestionAsked
AnswerQuestion: TypeAlias = Callable[[Question], Answer | Awaitable[Answer]]


@dataclass(kw_only=True, eq=False)
class Agent:
    """An agent that works in a folder with the user's configuration. `async with` opens a session; `send` and `ask`
    then run turns, one at a time. `run` does all of this at once, for scripts. Opening a session raises `AgentError`,
    which is a `UsageError` if arguments or the configuration are invalid."""

    root: str | Path = "."
    """The folder to work in."""
    model: str | None = None
    """The model as PROVIDER/NAME. None for the resumed session's model or the configured one."""
    mode: PermissionMode | None = None
    """The permission mode; None for the configured one."""
    allow: Sequence[str] = ()
    """Permission rules, such as `bash(pytest)`, in addition to the configured ones."""
    deny: Sequence[str] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    """Other settings by key, such as `{"agent.max_cost": 0.5}`."""
    tools: Sequence[FunctionTool] = ()
    """Functions to use as tools, in addition to the built-in ones."""
    answer: AnswerQuestion | None = None
    """Answers questions: `PermissionAsked` with a `Decision`, `PlanSubmitted` with a `PlanDecision`, `QuestionAsked`
    with a string. A string can also deny a call or reject a plan; it is then passed on as the reason. If this is None,
    everything that would be asked is denied. A function that is not async runs in a thread, so it is allowed to block.
    If it raises an exception, the turn ends and raises that exception."""
    resume: str | None = None
    """The start of the id of the session to resume. Empty for the project's latest session, None for a new one."""
    ephemeral: bool = False
    """Whether to run without storing the session."""
    trust_project: bool = False
    """Whether to use the project's MCP servers without asking."""
    environment: Mapping[str, str] | None = None
    """Environment variables with API keys and settings, used in place of `os.environ`."""

    _open_session: Session | None = field(default=None, init=False, repr=False)
    _exit_stack: AsyncExitStack = field(default_factory=AsyncExitStack, init=False, repr=False)

    async def __aenter__(self) -> Self:
        if self._open_session is not None:
            raise UsageError("the agent is already open")
        async with AsyncExitStack() as exit_stack:
            sessions = self._create_sessions()
            exit_stack.push_async_callback(sessions.close)
            self._open_session = await sessions.open(self.resume)
            exit_stack.push_async_callback(self._open_session.close)
            self._exit_stack = exit_stack.pop_all()
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open_session = None
        await self._exit_stack.aclose()

    async def send(self, prompt: str) -> AsyncGenerator[Event, None]:
        """Run a turn, yielding its events as they happen, from `TurnStarted` to `TurnFinished` or `TurnFailed`.
        Questions are among them. Leaving the loop early interrupts the turn."""
        answers = _Answers(self._session, self.answer)
        try:
            async with aclosing(self._session.send(prompt)) as events:
                async for event in events:
                    answers.handle_event(event)
                    yield event
        finally:
            await answers.close()
        answers.raise_failure()

    async def ask(self, prompt: str) -> RunOutcome:
        """Run a turn and return its outcome. `result` is the answer. `stop_reason` is `answered` on success. After a
        failure, `error` says why."""
        outcome = RunOutcome(session=self.session, mode=self._session.mode)
        async with aclosing(self.send(prompt)) as events:
            async for event in events:
                outcome.record_event(event)
        return outcome

    def run(self, prompt: str) -> RunOutcome:
        """Open a session, `ask`, and close it. For programs that are not async. Raises `UsageError` if an event loop is
        running."""
        if _is_loop_running():
            raise UsageError(
                "an event loop is already running: use `async with Agent(…) as agent` and `await agent.ask(…)`"
            )

        async def open_and_ask() -> RunOutcome:
            async with self:
                return await self.ask(prompt)

        return asyncio.run(open_and_ask())

    def interrupt(self) -> None:
        """Interrupt the turn. Every call still gets an output, so that the conversation can continue."""
        self._session.interrupt()

    async def change_mode(self, mode: PermissionMode) -> None:
        """Change the permission mode immediately, even during a turn."""
        await self._session.change_mode(mode)

    @property
    def session(self) -> str:
        """The session's id, which can be passed to `resume`."""
        return self._session.id

    @property
    def _session(self) -> Session:
        if self._open_session is None:
            raise UsageError("the agent is not open: use `async with Agent(…) as agent`")
        return self._open_session

    def _create_sessions(self) -> ProjectSessions:
        root = Path(self.root).expanduser()
        if not root.is_dir():
            raise UsageError(f"the folder `{root}` does not exist")
        for function_tool in self.tools:
            if not isinstance(function_tool, FunctionTool):
                raise UsageError(
                    f"{function_tool!r} is not a tool: decorate the function with `@tool`, or wrap it in `tool(…)`"
                )
        config = self._load_config(root)
        environment = add_stored_keys(config.folders.config, self._environment)
        return ProjectSessions(
            config, root, environment,
            is_interactive=self.answer is not None, is_ephemeral=self.ephemeral, extra_tools=self.tools,
        )  # fmt: skip

    @property
    def _environment(self) -> Mapping[str, str]:
        return os.environ if self.environment is None else self.environment

    def _load_config(self, root: Path) -> Config:
        named = {
            "agent.model": self.model,
            "agent.permission_mode": self.mode,
            "permissions.allow": [*self.allow] or None,
            "permissions.deny": [*self.deny] or None,
        }
        settings = {key: value for key, value in named.items() if value is not None}
        config = load_config(root, self._environment, settings, settings_by_key=self.settings)
        for notice in config.notices:
            _log.warning("%s", notice)
        return replace(config, is_project_trusted=True) if self.trust_project else config


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Answers:
    """Answers a turn's questions while the turn runs."""

    def __init__(self, session: Session, answer: AnswerQuestion | None) -> None:
        self._session, self._answer = session, answer
        self._answer_tasks: set[asyncio.Task[None]] = set()
        self._failure: Exception | None = None

    def handle_event(self, event: Event) -> None:
        if self._answer is not None and isinstance(event, Question):
            self._answer_tasks.add(asyncio.create_task(self._answer_question(self._answer, event)))

    async def _answer_question(self, answer: AnswerQuestion, question: Question) -> None:
        try:
            reply = await call_function(partial(answer, question), is_async=inspect.iscoroutinefunction(answer))
            if not isinstance(reply, Decision | PlanDecision | str):
                raise TypeError(
                    f"a question must be answered with a Decision, a PlanDecision or a string, not with {reply!r}"
                )
        except Exception as error:  # noqa: BLE001  # an error of the program, raised where it awaits the turn
            self._failure = error
            self._session.interrupt()
        else:
            self._session.answer(question.id, reply)

    async def close(self) -> None:
        """Cancel unfinished answers."""
        for task in self._answer_tasks:
            task.cancel()
        await asyncio.gather(*self._answer_tasks, return_exceptions=True)

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
