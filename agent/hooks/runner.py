"""Runs the hooks of a session concurrently, with timeouts, and records their results."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ebbtide.agent import hooks as agent_hooks
from ebbtide.agent.channel import Channel
from ebbtide.agent.config.hook_tables import ClientAction, HookEvent, HttpAction, McpToolAction, ModelAction
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.session import HookStatus
from ebbtide.agent.extensions.trust import TrustState
from ebbtide.agent.hooks.answers import (
    MAX_OUTPUT_BYTES,
    HookAnswer,
    build_failure_answer,
    is_async_answer,
    merge_answers,
    parse_answer,
)
from ebbtide.agent.hooks.approval import HookApproval
from ebbtide.agent.hooks.conditions import may_match
from ebbtide.agent.hooks.declarations import PLUGIN_ROOT_VARIABLE, PROJECT_DIR_VARIABLE, DeclaredHook
from ebbtide.agent.hooks.env_file import EnvFile
from ebbtide.agent.hooks.judges import CallClient, HookBackends, run_client_hook, run_mcp_tool_hook, run_model_hook
from ebbtide.agent.hooks.matchers import matches_call, matches_names
from ebbtide.agent.hooks.tool_names import ClaudeToolCall
from ebbtide.tools.base import Workspace
from ebbtide.tools.process.child import ChildResult, run_with_input
from ebbtide.tools.process.shell import Launch, child_environment
from ebbtide.tools.sandbox.diff_program import diff_override_variables

MAX_CONCURRENT_HOOKS = 16
"""Maximum number of hooks that run at the same time."""


@dataclass(frozen=True, slots=True)
class HookStatistics:
    """Statistics of one hook in the session."""

    run_count: int = 0
    objection_count: int = 0
    failure_count: int = 0
    problem: str = ""
    """The most recent problem."""

    def with_answer(self, answer: HookAnswer) -> "HookStatistics":
        failure_count, problem = (
            (self.failure_count + 1, answer.problems[-1]) if answer.problems else (self.failure_count, self.problem)
        )
        return replace(
            self,
            objection_count=self.objection_count + (answer.verdict == "deny"),
            failure_count=failure_count,
            problem=problem,
        )


class HookRunner:
    """The hooks of one session. Only approved hooks run."""

    def __init__(
        self,
        hooks: Sequence[DeclaredHook],
        project: Path,
        workspace: Workspace,
        channel: Channel,
        approval: HookApproval,
        get_mode: Callable[[], PermissionMode],
        notify_once: Callable[[str], None],
        on_async_answer: Callable[[DeclaredHook, HookAnswer], None],
    ) -> None:
        """`notify_once` shows the user a problem once; `on_async_answer` receives the answers of asynchronous hooks."""
        self._hooks, self._project = tuple(hooks), str(project)
        self._workspace, self._channel, self._approval = workspace, channel, approval
        self._get_mode, self._notify_once, self._on_async_answer = get_mode, notify_once, on_async_answer
        self._statistics = {id(hook): HookStatistics() for hook in hooks}
        self._background_tasks: set[asyncio.Task[object]] = set()
        self._semaphore = asyncio.Semaphore(MAX_CONCURRENT_HOOKS)
        self.judges: HookBackends | None = None
        """The models, agents and MCP servers that hooks can ask; None until the session has them."""
        self._call_client: CallClient | None = None

    def add_client_hooks(self, hooks: Sequence[DeclaredHook], call_client: CallClient) -> None:
        """Add the client's hooks. `call_client`: calls the client."""
        self._hooks, self._call_client = (*self._hooks, *hooks), call_client
        self._statistics |= {id(hook): HookStatistics() for hook in hooks}

    def has_hooks(self, event: HookEvent) -> bool:
        return any(hook.event == event for hook in self._hooks)

    @property
    def hook_states(self) -> tuple[tuple[DeclaredHook, TrustState, HookStatistics], ...]:
        """All hooks in order of precedence, each with its approval state and statistics."""
        return tuple((hook, self._approval.trust_state(hook), self._statistics[id(hook)]) for hook in self._hooks)

    async def run_matching(
        self,
        event: HookEvent,
        names: Sequence[str],
        call: ClaudeToolCall | None,
        build_input: Callable[[], Awaitable[bytes]],
    ) -> HookAnswer:
        """Run the matching hooks of an event and return their merged answer. `names`: the names to which matchers are
        applied; `call`: the tool call, if there is one; `build_input`: returns the input. Identical hooks run only
        once."""
        matching_hooks = await self._matching_hooks(event, names, call)
        if not matching_hooks:
            return HookAnswer()
        payload = await build_input()
        foreground_hooks = [hook for hook in matching_hooks if not hook.entry.runs_in_background]
        for hook in matching_hooks:
            statistics = self._statistics[id(hook)]
            self._statistics[id(hook)] = replace(statistics, run_count=statistics.run_count + 1)
            if hook.entry.runs_in_background:
                self.run_in_background(self._run_background_hook(hook, payload))
        with self._show_status(foreground_hooks):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run_hook(hook, payload)) for hook in foreground_hooks]
        return merge_answers([task.result() for task in tasks])

    async def _matching_hooks(
        self, event: HookEvent, names: Sequence[str], call: ClaudeToolCall | None
    ) -> Sequence[DeclaredHook]:
        unique_hooks: dict[object, DeclaredHook] = {}
        for hook in self._hooks:
            if (
                hook.event == event
                and self._matches(hook, names, call)
                and self._is_condition_met(hook, call)
                and await self._may_run(hook)
            ):
                unique_hooks[hook.entry.action, hook.plugin_folder, hook.owner] = hook
        return tuple(unique_hooks.values())

    @contextmanager
    def _show_status(self, hooks: Sequence[DeclaredHook]) -> Iterator[None]:
        """Show the status message of the first hook that has one."""
        status = next((hook.entry.status for hook in hooks if hook.entry.status), "")
        if not status:
            yield
            return
        self._channel.emit(HookStatus(status))
        try:
            yield
        finally:
            self._channel.emit(HookStatus(""))

    def run_in_background(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run `coroutine` in the background until the session ends."""
        task = asyncio.create_task(coroutine)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def close(self) -> None:
        """Cancel background work."""
        for task in self._background_tasks:
            task.cancel()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)

    def _matches(self, hook: DeclaredHook, names: Sequence[str], call: ClaudeToolCall | None) -> bool:
        if call is None:
            return matches_names(hook.entry.matcher, names)
        root, home = str(self._workspace.root), os.path.expanduser("~")
        return matches_call(hook.entry.matcher, call, root, self._project, home)

    def _is_condition_met(self, hook: DeclaredHook, call: ClaudeToolCall | None) -> bool:
        if hook.entry.is_once_per_session and self._statistics[id(hook)].run_count:
            return False
        if not hook.entry.condition:
            return True
        root, home = str(self._workspace.root), os.path.expanduser("~")
        return call is not None and may_match(hook.entry.condition, call, root, self._project, home)

    async def _may_run(self, hook: DeclaredHook) -> bool:
        if self._approval.trust_state(hook) != "on":
            return False
        if hook.hook_file is None or await asyncio.to_thread(hook.hook_file.is_unchanged):
            return True
        self._notify_once(
            f"the hooks of `{hook.declared_in}` were disabled: they, or files that they run, have changed since they "
            "were approved; a new session asks about them"
        )
        return False

    async def _run_hook(self, hook: DeclaredHook, payload: bytes) -> HookAnswer:
        """Run a hook and return its answer. If the hook declares itself asynchronous, return an empty answer now and
        deliver the real one later."""
        async_declaration = asyncio.Event()
        hook_task = asyncio.create_task(
            self._run_and_record(hook, payload, lambda line: async_declaration.set() if is_async_answer(line) else None)
        )
        declaration_wait = asyncio.create_task(async_declaration.wait())
        is_detached = False
        try:
            await asyncio.wait((hook_task, declaration_wait), return_when=asyncio.FIRST_COMPLETED)
            if hook_task.done():
                return hook_task.result()
            self.run_in_background(self._deliver_async_answer(hook, hook_task))
            is_detached = True
            self._background_tasks.add(hook_task)
            hook_task.add_done_callback(self._background_tasks.discard)
            return HookAnswer()
        finally:
            declaration_wait.cancel()
            if not is_detached:
                await _cancel_task(hook_task)

    async def _deliver_async_answer(self, hook: DeclaredHook, hook_task: "asyncio.Task[HookAnswer]") -> None:
        try:
            self._on_async_answer(hook, await hook_task)
        finally:
            await _cancel_task(hook_task)

    async def _run_and_record(
        self, hook: DeclaredHook, payload: bytes, on_first_line: Callable[[bytes], object]
    ) -> HookAnswer:
        async with self._semaphore:
            answer = await run_and_parse(hook, partial(self._perform_action, hook, payload, on_first_line))
        self._statistics[id(hook)] = self._statistics[id(hook)].with_answer(answer)
        return replace(answer, is_from_user=hook.owner != "project")

    async def _perform_action(
        self, hook: DeclaredHook, payload: bytes, on_first_line: Callable[[bytes], object]
    ) -> ChildResult:
        match hook.entry.action:
            case HttpAction() as action:
                return await agent_hooks.http_hooks.post_hook(action, payload, hook.timeout, MAX_OUTPUT_BYTES)
            case ModelAction() as action:
                is_from_user = hook.owner != "project"
                return await run_model_hook(
                    action, hook.event, payload, hook.timeout, self.judges, is_from_user=is_from_user
                )
            case McpToolAction() as action:
                return await run_mcp_tool_hook(action, payload, hook.timeout, self.judges)
            case ClientAction() as action:
                return await run_client_hook(action, payload, hook.timeout, self._call_client)
            case _:
                may_write = self._get_mode() != "plan"
                return await run_program(
                    hook, payload, self._workspace, self._project, on_first_line, may_write=may_write
                )

    async def _run_background_hook(self, hook: DeclaredHook, payload: bytes) -> None:
        self._on_async_answer(hook, await self._run_hook(hook, payload))


async def run_and_parse(hook: DeclaredHook, run: Callable[[], Awaitable[ChildResult]]) -> HookAnswer:
    """Await `run`, which runs the hook, and return the parsed answer."""
    try:
        return parse_answer(hook.event, hook.display_name, await run(), hook.timeout)
    except (OSError, ValueError) as error:  # a command with a NUL byte raises ValueError
        return build_failure_answer(hook.event, hook.display_name, str(error))


async def run_program(
    hook: DeclaredHook,
    payload: bytes,
    workspace: Workspace,
    project: str,
    on_first_line: Callable[[bytes], object] = lambda _: None,
    *,
    may_write: bool = True,
) -> ChildResult:
    """Run a hook's program. A project's hooks run in the sandbox. `on_first_line`: receives the first line as soon as
    it is printed. `may_write`: whether a sandboxed hook may change the working folder. Raises `OSError` or
    `ValueError`."""
    root = workspace.root
    variables = {PROJECT_DIR_VARIABLE: project}
    environment = child_environment() | diff_override_variables((root,)) | variables
    if hook.plugin_folder:
        environment[PLUGIN_ROOT_VARIABLE] = hook.plugin_folder
    sandbox = workspace.sandbox if hook.owner == "project" else None
    env_file = EnvFile(workspace, sandbox, variables) if hook.event == "SessionStart" else None
    if env_file is not None:
        environment |= env_file.create_file
    launch = Launch(hook.argv(project), environment)
    if sandbox is not None:
        launch = sandbox.wrap(launch, root, may_write=may_write)
    try:
        return await run_with_input(launch, payload, root, hook.timeout, MAX_OUTPUT_BYTES, on_first_line)
    finally:
        if env_file is not None:
            await env_file.apply_and_delete()


async def _cancel_task(hook_task: "asyncio.Task[HookAnswer]") -> None:
    hook_task.cancel()
    await asyncio.gather(hook_task, return_exceptions=True)
