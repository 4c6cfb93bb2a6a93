"""Runs the calls of a reply and returns their outputs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import Protocol, TypeAlias

from ebbtide.agent.calls.approval import ApprovalContext, Approver, EditedCallError, Permit, approve
from ebbtide.agent.calls.changed_call import ChangedCall, edit_note
from ebbtide.agent.calls.git_secrets import learn_git_passwords
from ebbtide.agent.calls.hook_rulings import HookDecision, HookedCall
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_budget import ArchivedOutput, OutputBudget, StoreOutput
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.plan_approval import BEHIND, approve_plan, was_decided
from ebbtide.agent.calls.policy import runs_unsandboxed
from ebbtide.agent.calls.resolve import unwrap_call_tool
from ebbtide.agent.calls.secret_arguments import with_secrets
from ebbtide.agent.calls.unsandboxed import retry_unsandboxed
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.context.control_calls import PLAN, TASK
from ebbtide.agent.context.offload import shift_ranges
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.events.permissions import CallEdited
from ebbtide.agent.events.session import Event, ToolFinished, ToolProgress, ToolStarted
from ebbtide.agent.messages import OutputStatus, ToolCall, ToolOutput
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.tools.base import AppliedChange, Effect, Result, Tool, ToolError, Workspace
from ebbtide.tools.files.change import Change, preview_of
from ebbtide.tools.files.paths import display
from ebbtide.tools.files.syntax import broken_syntax, has_syntax
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.new_problems import NewProblems


@dataclass(frozen=True, slots=True)
class CallPosition:
    """The position of a call in the session."""

    number: int = 1
    """The number of its output, counted over the whole session."""
    purpose: str = ""
    """What the user asked for, and what the model said with the call."""


class OutputStore(Protocol):
    """Chooses the part of an output that the model is shown, and stores the rest."""

    async def preview(
        self,
        call: ToolCall,
        place: CallPosition,
        status: OutputStatus,
        raw: Result,
        ran: PermissionRequest | None = None,
    ) -> ToolOutput:
        """`ran`: the permission request of the tool that ran; None if none ran to its end."""

    async def store(self, call: ToolCall, place: CallPosition, output: ToolOutput) -> ArchivedOutput:
        """Store the whole output, if less than its text is going to be shown."""


SaveOpenFiles: TypeAlias = Callable[[Sequence[str]], Coroutine[None, None, None]]


class CallHooks(Protocol):
    """Hooks that run before a call is approved."""

    async def before(self, call: ToolCall, context: ApprovalContext) -> HookedCall: ...

    async def permission(self, call: ToolCall) -> HookDecision:
        """The hooks' decision about a call that the user would be asked about."""


class Guard(Protocol):
    """Saves files before a call may change them."""

    def __call__(
        self, effect: Effect, subjects: Sequence[str], *, reads_only: bool, show: Callable[[str], None]
    ) -> AbstractAsyncContextManager[None]:
        """`show` receives progress lines while the guard waits."""


def no_checkpoint(
    effect: Effect, subjects: Sequence[str], *, reads_only: bool, show: Callable[[str], None]
) -> AbstractAsyncContextManager[None]:
    """Default guard: save nothing."""
    return nullcontext()


async def discard_changes(file_changes: Sequence[AppliedChange]) -> None:
    """Default callback: do nothing."""


async def no_diagnostics(file_changes: Sequence[AppliedChange]) -> NewProblems | None:
    """Default where there are no diagnostics."""
    return None


async def no_open_editors(paths: Sequence[str]) -> None:
    """Default where no editor has files open."""


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Everything needed to run calls."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    approval: Approver
    interrupt: Interrupt
    emit: Callable[[Event], None]
    output_store: OutputStore
    note_files: Callable[[Sequence[AppliedChange]], Awaitable[None]] = discard_changes
    """Stores the previous content of files that a call changed."""
    progress: CallProgress = field(default_factory=CallProgress)
    """The progress of the calls of the step."""
    loop_guard: LoopGuard | None = None
    """Counts repeated calls; None if a turn may repeat them."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """The secrets in what the model was shown."""
    guard: Guard = no_checkpoint
    private_hosts: Sequence[str] = ()
    """Hosts on private networks that rules may open to commands."""
    look_at_changes: Callable[[Sequence[AppliedChange]], Coroutine[None, None, NewProblems | None]] = no_diagnostics
    """Returns the new problems in files that a call changed."""
    shows_changes: bool = False
    """Whether someone is watching: file changes are then emitted as a diff."""
    hooks: CallHooks | None = None
    """Hooks that run before a call; None if there are none."""
    save_open_files: SaveOpenFiles = no_open_editors
    """Saves unsaved editor changes in these files to disk."""


async def run_calls(
    calls: Sequence[ToolCall], call_runner: CallRunner, room: OutputBudget, place: CallPosition
) -> tuple[ToolOutput, ...]:
    """Run calls and return one output per call, in order: failures, denials and interruptions are outputs too.
    Adjacent calls that only read, or start sub-agents, run concurrently; any other runs alone, and none after a
    plan was decided. A call through `call_tool` counts as a call of its own tool. All outputs share the available
    room; if that requires it, no further call runs. `place`: the position of the first call."""
    outputs: list[ToolOutput] = []
    keep: list[StoreOutput] = []
    for group in _groups([unwrap_call_tool(call, call_runner.tools) for call in calls], call_runner.tools):
        places = [replace(place, number=place.number + len(outputs) + index) for index in range(len(group))]
        refusal = BEHIND if was_decided(calls, outputs) else "" if room.is_open else room.refusal
        if not refusal:
            found = await _run_side_by_side(group, places, call_runner)
            room.take(found)
            outputs += found
        else:
            outputs += [await _refuse(call, at, call_runner, refusal) for call, at in zip(group, places, strict=True)]
        keep += [partial(call_runner.output_store.store, call, at) for call, at in zip(group, places, strict=True)]
    return await room.share(outputs, keep)


async def run_unrecorded(call: ToolCall, call_runner: CallRunner) -> Result | str:
    """Run a call that belongs to no reply, and return its result, or why it may not run. It needs approval and is
    sandboxed like any other; nothing is recorded."""
    context = ApprovalContext(
        call_runner.tools,
        call_runner.workspace,
        call_runner.approval,
        call_runner.interrupt,
        call_runner.emit,
        call_runner.secrets,
        is_noted=False,
    )
    try:
        allowed = await approve(call, context)
        result = None if allowed.refusal else await _run_tool(allowed, replace(call_runner, emit=_ignore_event))
    except ToolError as error:
        return str(error)
    return allowed.refusal or result or "the user interrupted it"


def _ignore_event(event: Event) -> None:
    """Default where nobody watches a call."""


async def _refuse(call: ToolCall, place: CallPosition, call_runner: CallRunner, why: str) -> ToolOutput:
    call_runner.emit(ToolStarted(call.id, call.name, call.arguments))
    return await _finish(call, place, call_runner, "failed", why)


async def _run_side_by_side(
    group: Sequence[ToolCall], places: Sequence[CallPosition], call_runner: CallRunner
) -> list[ToolOutput]:
    """Run calls concurrently. If one raises, which is a bug, the others are ended first."""
    running = [
        asyncio.create_task(_run_call(call, place, call_runner)) for call, place in zip(group, places, strict=True)
    ]
    try:
        return await asyncio.gather(*running)
    finally:
        for call in running:
            call.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def _groups(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> list[list[ToolCall]]:
    groups: list[list[ToolCall]] = []
    was_read = False
    for call in calls:
        reads = call.name == TASK or (call.name in tools and tools[call.name].effect == "read")
        if reads and was_read:
            groups[-1].append(call)
        else:
            groups.append([call])
        was_read = reads
    return groups


async def _run_call(call: ToolCall, place: CallPosition, call_runner: CallRunner) -> ToolOutput:
    call_runner.emit(ToolStarted(call.id, call.name, call.arguments))
    if (earlier := call_runner.progress.output_of(call.id)) is not None:
        _emit_finished(call, earlier, (), call_runner)
        return earlier
    if call_runner.interrupt.is_requested():
        return await _finish(
            call, place, call_runner, "cancelled", "not run: the user interrupted the turn before it began"
        )
    context = ApprovalContext(
        call_runner.tools,
        call_runner.workspace,
        call_runner.approval,
        call_runner.interrupt,
        call_runner.emit,
        call_runner.secrets,
        changed=call_runner.progress.edited_arguments(call.id),
    )
    ran: PermissionRequest | None = None
    edited: ChangedCall | None = None
    try:
        await _save_open_files(call, call_runner)
        hooked = await call_runner.hooks.before(call, context) if call_runner.hooks is not None else HookedCall(call)
        in_place = call_runner.hooks.permission if call_runner.hooks is not None else None
        context = replace(context, word=hooked.word, in_place_of_user=in_place)
        allowed = await (approve_plan if call.name == PLAN else approve)(hooked.call, context)
        if allowed.is_edited:
            edited = ChangedCall(allowed.call)
        elif hooked.is_changed:
            edited = ChangedCall(hooked.call, "A hook")
            call_runner.emit(CallEdited(call.id, call.name, hooked.call.arguments))
        if call_runner.interrupt.is_requested():
            text = "not run: the user interrupted the turn before it began"
            return await _finish(call, place, call_runner, "cancelled", text, edited=edited)
        if allowed.refusal:
            return await _finish(call, place, call_runner, "denied", allowed.refusal, edited=edited)
        ran = allowed.asked
        await call_runner.progress.record_start(call.id)
        is_outside = runs_unsandboxed(ran, call_runner.approval.policy) if ran.effect == "run" else False
        result = await _run_tool(allowed, call_runner, is_outside=is_outside)
        if result is not None and result.blocked:
            again = partial(_run_tool, allowed, call_runner, is_outside=True)
            result = await retry_unsandboxed(allowed, result, context, again)
    except EditedCallError as error:
        return await _finish(call, place, call_runner, "failed", str(error), edited=ChangedCall(error.call))
    except ToolError as error:
        return await _finish(call, place, call_runner, "failed", str(error), ran=ran, edited=edited)
    if result is None:
        text = "interrupted by the user while it was running; it may be half done"
        return await _finish(call, place, call_runner, "interrupted", text, edited=edited)
    result = await _with_diagnostics(result, call_runner)
    return await _finish(
        call, place, call_runner, "failed" if result.failed else "done", result.text, result, ran, edited
    )


async def _save_open_files(call: ToolCall, call_runner: CallRunner) -> None:
    """Save unsaved editor changes in the files that a call names, so that it sees what the user sees. Plan mode must
    not change the disk, even this way. Raises `ToolError`."""
    tool = call_runner.tools.get(call.name)
    if call_runner.save_open_files is no_open_editors or call_runner.approval.policy.mode == "plan":
        return
    if tool is not None and tool.effect in ("read", "write") and not call.problem:
        paths = tool.subjects(call.arguments, call_runner.workspace)
        await call_runner.interrupt.race(call_runner.save_open_files(paths))


async def _with_diagnostics(result: Result, call_runner: CallRunner) -> Result:
    """Add diagnostics for the files that the call changed, unless the user interrupts; without a source of
    diagnostics, syntax errors."""
    if not result.file_changes or result.failed:
        return result
    problems = await call_runner.interrupt.race(call_runner.look_at_changes(result.file_changes))
    found = problems.text if problems is not None else ""
    if not found and any(has_syntax(made.path) for made in result.file_changes):
        found = await asyncio.to_thread(broken_syntax, result.file_changes, call_runner.workspace.root)
    return replace(result, text=f"{result.text}\n{found}", problems=problems) if found else result


async def _run_tool(allowed: Permit, call_runner: CallRunner, *, is_outside: bool = False) -> Result | None:
    """Run a tool; None if the user interrupted it. Programs that it leaves running produce no further progress."""
    is_over, visible = False, call_runner.secrets.stream()

    def show(text: str) -> None:
        if not is_over and (shown := visible(text)):
            call_runner.emit(ToolProgress(allowed.call.id, shown))

    try:
        shown = allowed.asked.read_only
        granted = frozenset((*allowed.asked.subjects, *(shown.paths if shown is not None else ())))
        workspace = replace(
            call_runner.workspace, progress=show, call=allowed.call.id, granted=granted, read_only=shown is not None
        )
        workspace = replace(workspace, sandbox=None) if is_outside else _reaching(workspace, allowed, call_runner)
        arguments = with_secrets(allowed.call, allowed.tool, call_runner.secrets)
        reads_only = allowed.asked.read_only is not None
        effect, subjects = allowed.tool.effect, allowed.asked.subjects
        if effect != "none":
            await learn_git_passwords(call_runner.secrets, call_runner.workspace.root)
        async with call_runner.guard(effect, subjects, reads_only=reads_only, show=show):
            return await call_runner.interrupt.race(allowed.tool.run(arguments, workspace))
    finally:
        is_over = True


def _reaching(workspace: Workspace, allowed: Permit, call_runner: CallRunner) -> Workspace:
    if workspace.sandbox is None or allowed.tool.effect != "run":
        return workspace
    from ebbtide.agent.calls.reach import CallReach  # noqa: PLC0415  # deferred: some runs start no commands

    private = call_runner.private_hosts
    return replace(workspace, reach=CallReach(allowed.call, call_runner.approval, call_runner.emit, private))


async def _finish(
    call: ToolCall,
    place: CallPosition,
    call_runner: CallRunner,
    status: OutputStatus,
    text: str,
    result: Result | None = None,
    ran: PermissionRequest | None = None,
    edited: ChangedCall | None = None,
) -> ToolOutput:
    """Build and record the output of a call. `edited`: the call as changed by the user or a hook, which the model is
    told."""
    changed = tuple(display(path, call_runner.workspace.root) for path in result.changed) if result else ()
    if result and result.file_changes:
        await call_runner.note_files(result.file_changes)
    meant = edited.call if edited is not None else call
    output = await call_runner.output_store.preview(meant, place, status, result or Result(text), ran)
    if told := "\n".join(filter(None, (call.note, edit_note(call, meant, edited.by) if edited else ""))):
        frame = "\n".join(part for part in (output.frame, told) if part) if output.stored or output.whole else ""
        output = replace(output, text=f"{told}\n{output.text}", frame=frame)
        output = replace(output, inserted=shift_ranges(output.inserted, len(told) + 1))
    if edited is not None:
        output = replace(output, edited=dict(meant.arguments))
    if again := _repeat_warning(meant, output, call_runner):
        frame = "\n".join(part for part in (output.frame, again) if part) if output.stored or output.whole else ""
        output = replace(output, text=f"{output.text}\n{again}", frame=frame)
    _emit_finished(call, output, changed, call_runner, await _diff_of(result, call_runner))
    await call_runner.progress.record_output(output)
    return output


async def _diff_of(result: Result | None, call_runner: CallRunner) -> str:
    """A diff of the files that a call changed, if someone is watching and the tool reports them."""
    if result is None or not result.file_changes or not call_runner.shows_changes:
        return ""
    changes = [Change(made.path, made.before, made.after) for made in result.file_changes]
    return call_runner.secrets.hide(await asyncio.to_thread(preview_of, changes, call_runner.workspace.root))


def _emit_finished(
    call: ToolCall, output: ToolOutput, changed: tuple[str, ...], call_runner: CallRunner, diff: str = ""
) -> None:
    text, inserted = call_runner.secrets.hide_in(output.text, output.inserted)
    lines = output.stored.lines if output.stored is not None else None
    problems = output.problems
    if problems is not None:
        problems = replace(problems, lines=tuple(map(call_runner.secrets.hide, problems.lines)))
    call_runner.emit(
        ToolFinished(call.id, call.name, output.status, text, changed, lines, inserted, output.program, diff, problems)
    )


def _repeat_warning(call: ToolCall, output: ToolOutput, call_runner: CallRunner) -> str:
    tool = call_runner.tools.get(call.name)
    guard = call_runner.loop_guard
    return guard.note(call, output, tool.effect if tool else "none") if guard else ""
