"""Runs the hooks of a session concurrently, with timeouts, and records their results."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.hook_tables import HookEvent, HttpTarget, ModelQuestion, ProgramCall, ServerCall
from ebbtide.agent.config.options import Mode
from ebbtide.agent.events.session import HookStatus
from ebbtide.agent.extensions.trust import Standing
from ebbtide.agent.hooks.answers import (
    MAX_OUTPUT_BYTES,
    HookAnswer,
    is_async_answer,
    merge_answers,
    not_run,
    parse_answer,
)
from ebbtide.agent.hooks.approval import HookApproval
from ebbtide.agent.hooks.conditions import is_met
from ebbtide.agent.hooks.declarations import PLUGIN_ROOT, PROJECT_DIR, DeclaredHook
from ebbtide.agent.hooks.env_file import EnvFile
from ebbtide.agent.hooks.http_hooks import post_hook
from ebbtide.agent.hooks.judges import Judges, ask_model, ask_server
from ebbtide.agent.hooks.matchers import is_for, is_for_call
from ebbtide.agent.hooks.program_calls import AskProgram, ask_program
from ebbtide.agent.hooks.tool_names import ToolView
from ebbtide.tools.base import Workspace
from ebbtide.tools.process.child import Exit, answer_of
from ebbtide.tools.process.shell import Launch, child_environment
from ebbtide.tools.sandbox.diff_program import own_diff_variables

MAX_CONCURRENT_HOOKS = 16
"""Maximum number of hooks that run at the same time."""


@dataclass(frozen=True, slots=True)
class HookRecord:
    """Statistics of one hook in the session."""

    runs: int = 0
    objections: int = 0
    failures: int = 0
    problem: str = ""
    """The most recent problem."""

    def with_answer(self, answer: HookAnswer) -> "HookRecord":
        failures, problem = (
            (self.failures + 1, answer.problems[-1]) if answer.problems else (self.failures, self.problem)
        )
        return replace(
            self, objections=self.objections + (answer.verdict == "deny"), failures=failures, problem=problem
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
        mode: Callable[[], Mode],
        tell_once: Callable[[str], None],
        hear_later: Callable[[DeclaredHook, HookAnswer], None],
    ) -> None:
        """`tell_once` shows the user a problem once; `hear_later` receives the answers of asynchronous hooks."""
        self._hooks, self._project = tuple(hooks), str(project)
        self._workspace, self._channel, self._approval = workspace, channel, approval
        self._mode, self._tell_once, self._hear_later = mode, tell_once, hear_later
        self._records = {id(hook): HookRecord() for hook in hooks}
        self._background: set[asyncio.Task[object]] = set()
        self._places = asyncio.Semaphore(MAX_CONCURRENT_HOOKS)
        self.judges: Judges | None = None
        """Models and servers that hooks may ask; set once the session has them."""
        self._program: AskProgram | None = None

    def add(self, hooks: Sequence[DeclaredHook], program: AskProgram) -> None:
        """Add hooks of the client program."""
        self._hooks, self._program = (*self._hooks, *hooks), program
        self._records |= {id(hook): HookRecord() for hook in hooks}

    def has(self, event: HookEvent) -> bool:
        return any(hook.event == event for hook in self._hooks)

    @property
    def records(self) -> tuple[tuple[DeclaredHook, Standing, HookRecord], ...]:
        """All hooks, in order of precedence."""
        return tuple((hook, self._approval.standing(hook), self._records[id(hook)]) for hook in self._hooks)

    async def ask(
        self, event: HookEvent, names: Sequence[str], call: ToolView | None, said: Callable[[], Awaitable[bytes]]
    ) -> HookAnswer:
        """Run the matching hooks of an event and merge their answers. `names` are matched by matchers, `call` is the
        tool call if there is one, and `said` returns the input. Identical hooks run once."""
        wanted = await self._matching_hooks(event, names, call)
        if not wanted:
            return HookAnswer()
        told = await said()
        awaited = [hook for hook in wanted if not hook.entry.in_background]
        for hook in wanted:
            record = self._records[id(hook)]
            self._records[id(hook)] = replace(record, runs=record.runs + 1)
            if hook.entry.in_background:
                self.run_in_background(self._run_async_hook(hook, told))
        with self._show_status(awaited):
            async with asyncio.TaskGroup() as group:
                answers = [group.create_task(self._run_hook(hook, told)) for hook in awaited]
        return merge_answers([task.result() for task in answers])

    async def _matching_hooks(
        self, event: HookEvent, names: Sequence[str], call: ToolView | None
    ) -> Sequence[DeclaredHook]:
        found: dict[object, DeclaredHook] = {}
        for hook in self._hooks:
            if (
                hook.event == event
                and self._is_for(hook, names, call)
                and self._is_met(hook, call)
                and await self._may_run(hook)
            ):
                found[hook.entry.action, hook.plugin, hook.owner] = hook
        return tuple(found.values())

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

    def run_in_background(self, work: Coroutine[object, object, None]) -> None:
        """Run `work` in the background until the session ends."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """Cancel background work."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _is_for(self, hook: DeclaredHook, names: Sequence[str], call: ToolView | None) -> bool:
        if call is None:
            return is_for(hook.entry.matcher, names)
        root, home = str(self._workspace.root), os.path.expanduser("~")
        return is_for_call(hook.entry.matcher, call, root, self._project, home)

    def _is_met(self, hook: DeclaredHook, call: ToolView | None) -> bool:
        if hook.entry.once and self._records[id(hook)].runs:
            return False
        if not hook.entry.condition:
            return True
        root, home = str(self._workspace.root), os.path.expanduser("~")
        return call is not None and is_met(hook.entry.condition, call, root, self._project, home)

    async def _may_run(self, hook: DeclaredHook) -> bool:
        if self._approval.standing(hook) != "on":
            return False
        if hook.file is None or await asyncio.to_thread(hook.file.is_as_it_was):
            return True
        self._tell_once(
            f"the hooks of `{hook.source}` were disabled: they, or files that they run, have changed since they "
            "were approved; a new session asks about them"
        )
        return False

    async def _run_hook(self, hook: DeclaredHook, told: bytes) -> HookAnswer:
        """Run a hook and return its answer. If it declares itself asynchronous, return an empty answer and deliver the
        real one later."""
        aside = asyncio.Event()
        work = asyncio.create_task(
            self._answer(hook, told, lambda line: aside.set() if is_async_answer(line) else None)
        )
        says, is_left = asyncio.create_task(aside.wait()), False
        try:
            await asyncio.wait((work, says), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self.run_in_background(self._deliver_late_answer(hook, work))
            is_left = True
            self._background.add(work)
            work.add_done_callback(self._background.discard)
            return HookAnswer()
        finally:
            says.cancel()
            if not is_left:
                await _cancel_task(work)

    async def _deliver_late_answer(self, hook: DeclaredHook, work: "asyncio.Task[HookAnswer]") -> None:
        try:
            self._hear_later(hook, await work)
        finally:
            await _cancel_task(work)

    async def _answer(self, hook: DeclaredHook, told: bytes, begins: Callable[[bytes], object]) -> HookAnswer:
        try:
            async with self._places:
                found = parse_answer(hook.event, hook.label, await self._exit(hook, told, begins), hook.seconds)
        except (OSError, ValueError) as error:  # a command with a NUL byte raises ValueError
            found = not_run(hook.label, str(error))
        self._records[id(hook)] = self._records[id(hook)].with_answer(found)
        return replace(found, is_own=hook.owner != "project")

    async def _exit(self, hook: DeclaredHook, told: bytes, begins: Callable[[bytes], object]) -> Exit:
        match hook.entry.action:
            case HttpTarget() as target:
                return await post_hook(target, told, hook.seconds, MAX_OUTPUT_BYTES)
            case ModelQuestion() as question:
                is_own = hook.owner != "project"
                return await ask_model(question, hook.event, told, hook.seconds, self.judges, is_own=is_own)
            case ServerCall() as call:
                return await ask_server(call, told, hook.seconds, self.judges)
            case ProgramCall() as call:
                return await ask_program(call, told, hook.seconds, self._program)
            case _:
                return await self._run_program(hook, told, begins)

    async def _run_program(self, hook: DeclaredHook, told: bytes, begins: Callable[[bytes], object]) -> Exit:
        root = self._workspace.root
        environment = child_environment() | own_diff_variables((root,)) | {PROJECT_DIR: self._project}
        if hook.plugin:
            environment[PLUGIN_ROOT] = hook.plugin
        sandbox = self._workspace.sandbox if hook.owner == "project" else None
        told_to = {PROJECT_DIR: self._project}
        file = EnvFile(self._workspace, sandbox, told_to) if hook.event == "SessionStart" else None
        if file is not None:
            environment |= file.variable
        launch = Launch(hook.argv(self._project), environment)
        if sandbox is not None:
            launch = sandbox.around(launch, root, may_write=self._mode() != "plan")
        try:
            return await answer_of(launch, told, root, hook.seconds, MAX_OUTPUT_BYTES, begins)
        finally:
            if file is not None:
                await file.take()

    async def _run_async_hook(self, hook: DeclaredHook, told: bytes) -> None:
        self._hear_later(hook, await self._run_hook(hook, told))


async def _cancel_task(work: "asyncio.Task[HookAnswer]") -> None:
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
