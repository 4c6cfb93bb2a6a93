"""Runs the calls of a reply and returns their outputs."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ebbtide.agent import calls as agent_calls
from ebbtide.agent.calls.approval import ApprovalContext, ApprovalResult, Approver, EditedCallError, approve
from ebbtide.agent.calls.call_resolution import require_tool, unwrap_deferred_call
from ebbtide.agent.calls.call_secrets import add_git_passwords, arguments_with_secrets
from ebbtide.agent.calls.changed_call import ChangedCall, build_edit_note
from ebbtide.agent.calls.loop_guard import LoopGuard
from ebbtide.agent.calls.output_budget import ArchivedOutput, OutputBudget, StoreOutput
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.plan_approval import NOT_RUN_AFTER_PLAN, approve_plan, is_plan_decided
from ebbtide.agent.calls.policy import runs_unsandboxed
from ebbtide.agent.calls.unsandboxed import retry_unsandboxed
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.control_calls import PLAN_TOOL, TASK_TOOL
from ebbtide.agent.events.permissions import CallEdited
from ebbtide.agent.events.session import Event, ToolFinished, ToolProgress, ToolStarted
from ebbtide.agent.messages import OutputStatus, ToolCall, ToolOutput
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.records.call_progress import CallProgress
from ebbtide.agent.view.previews import shift_ranges
from ebbtide.tools.base import AppliedChange, Effect, Result, Tool, ToolError, Workspace
from ebbtide.tools.files.change import Change, diff_changes
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.syntax import can_parse, syntax_errors_note
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.new_problems import NewProblems

if TYPE_CHECKING:  # imported only for their types, because most runs have no hooks
    from ebbtide.agent.hooks.tool_hooks import ToolHooks


@dataclass(frozen=True, slots=True)
class CallPosition:
    """The position of a call in the session."""

    output_number: int = 1
    """The number of the call's output, counted across the whole session."""
    purpose: str = ""
    """The user's message, and the text that the model wrote with the call."""


class OutputStore(Protocol):
    """Stores outputs in full and selects the part that the model is shown."""

    async def store_and_show(
        self,
        call: ToolCall,
        position: CallPosition,
        status: OutputStatus,
        result: Result,
        request: PermissionRequest | None = None,
    ) -> ToolOutput:
        """Store the raw output and return what the model is shown. `request`: the permission request of the call, or
        None if the tool did not run to completion."""

    async def store_full_output(self, call: ToolCall, position: CallPosition, output: ToolOutput) -> ArchivedOutput:
        """Store the full output. Called for an output that does not fit into the window, before it is cut."""


DiagnoseChanges: TypeAlias = Callable[[Sequence[AppliedChange]], Coroutine[None, None, NewProblems | None]]
SaveOpenFiles: TypeAlias = Callable[[Sequence[str]], Coroutine[None, None, None]]


class CheckpointGuard(Protocol):
    """Saves files before a call that might change them."""

    def __call__(
        self, effect: Effect, subjects: Sequence[str], *, reads_only: bool, on_progress: Callable[[str], None]
    ) -> AbstractAsyncContextManager[None]:
        """`on_progress` receives progress lines while the guard waits."""


def no_checkpoint(
    effect: Effect, subjects: Sequence[str], *, reads_only: bool, on_progress: Callable[[str], None]
) -> AbstractAsyncContextManager[None]:
    """Default guard: save nothing."""
    return nullcontext()


async def ignore_file_changes(file_changes: Sequence[AppliedChange]) -> None:
    """Default callback: record no file changes."""


async def no_diagnostics(file_changes: Sequence[AppliedChange]) -> NewProblems | None:
    """Default callback: report no diagnostics."""
    return None


async def no_open_editors(paths: Sequence[str]) -> None:
    """Default callback: save nothing, because no editor is connected."""


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Everything needed to run calls."""

    tools: Mapping[str, Tool]
    workspace: Workspace
    approver: Approver
    interrupt: Interrupt
    emit: Callable[[Event], None]
    output_store: OutputStore
    record_file_changes: Callable[[Sequence[AppliedChange]], Awaitable[None]] = ignore_file_changes
    """Called with the files that a call changed, to store their previous content."""
    progress: CallProgress = field(default_factory=CallProgress)
    """The progress of the step's calls."""
    loop_guard: LoopGuard | None = None
    """Counts repeated calls; None if repetition is not limited."""
    secrets: SecretTokens = field(default_factory=SecretTokens)
    """Replaces secrets in calls and outputs with tokens, and tokens with secrets."""
    checkpoint_guard: CheckpointGuard = no_checkpoint
    private_hosts: Sequence[str] = ()
    """Hosts on private networks that rules may allow commands to connect to."""
    diagnose_changes: DiagnoseChanges = no_diagnostics
    """Returns the new problems in files that a call changed."""
    emits_diffs: bool = False
    """Whether `ToolFinished` events include a diff of the changed files. Needed only if someone is watching."""
    hooks: "ToolHooks | None" = None
    """Hooks that run around calls; None if there are none."""
    save_open_files: SaveOpenFiles = no_open_editors
    """Saves unsaved editor changes in these files to disk."""


async def run_calls(
    calls: Sequence[ToolCall], call_runner: CallRunner, output_budget: OutputBudget, first_position: CallPosition
) -> tuple[ToolOutput, ...]:
    """Run calls and return one output per call, in order: failures, denials and interruptions are outputs too. Adjacent
    calls run concurrently if they only read or start sub-agents; all others run alone. Once a plan has been accepted or
    rejected, the calls after it do not run. A call through `call_tool` is treated like a direct one. All outputs share
    `output_budget`; once it is used up, no further call runs. `first_position`: the position of the first call."""
    outputs: list[ToolOutput] = []
    store_functions: list[StoreOutput] = []
    for group in _concurrent_groups(
        [unwrap_deferred_call(call, call_runner.tools) for call in calls], call_runner.tools
    ):
        positions = [
            replace(first_position, output_number=first_position.output_number + len(outputs) + index)
            for index in range(len(group))
        ]
        refusal = (
            NOT_RUN_AFTER_PLAN
            if is_plan_decided(calls, outputs)
            else ""
            if output_budget.allows_calls
            else output_budget.refusal
        )
        if not refusal:
            group_outputs = await _run_concurrently(group, positions, call_runner)
            output_budget.reserve(group_outputs)
            outputs += group_outputs
        else:
            outputs += [
                await _refuse(call, position, call_runner, refusal)
                for call, position in zip(group, positions, strict=True)
            ]
        store_functions += [
            partial(call_runner.output_store.store_full_output, call, position)
            for call, position in zip(group, positions, strict=True)
        ]
    return await output_budget.fit_outputs(outputs, store_functions)


async def run_unrecorded_call(call: ToolCall, call_runner: CallRunner) -> Result | str:
    """Run a call that is not part of a reply. Return its result, or the reason why it did not run. The call is approved
    and sandboxed like any other, but not recorded."""
    context = ApprovalContext(
        call_runner.tools,
        call_runner.workspace,
        call_runner.approver,
        call_runner.interrupt,
        call_runner.emit,
        call_runner.secrets,
        is_recorded=False,
    )
    try:
        approval = await approve(call, context)
        silent_runner = replace(call_runner, emit=_ignore_event)
        result = None if approval.refusal else await _run_tool(approval, silent_runner)
        if result and _needs_approval(result, call_runner):
            approval = await approve(call, replace(context, denied_access=result.denied_access))
            result = None if approval.refusal else await _run_tool(approval, silent_runner)
    except ToolError as error:
        return str(error)
    return approval.refusal or result or "the user interrupted it"


def _ignore_event(event: Event) -> None:
    """Discard an event, because no interface shows this call."""


async def _refuse(call: ToolCall, position: CallPosition, call_runner: CallRunner, reason: str) -> ToolOutput:
    call_runner.emit(ToolStarted(call.id, call.name, call.arguments))
    return await _finish_call(call, position, call_runner, "failed", reason)


async def _run_concurrently(
    group: Sequence[ToolCall], positions: Sequence[CallPosition], call_runner: CallRunner
) -> list[ToolOutput]:
    """Run calls concurrently. An exception in one of them is a bug: cancel the others before it propagates."""
    tasks = [
        asyncio.create_task(_run_call(call, position, call_runner))
        for call, position in zip(group, positions, strict=True)
    ]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _concurrent_groups(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> list[list[ToolCall]]:
    groups: list[list[ToolCall]] = []
    is_group_concurrent = False
    for call in calls:
        is_concurrent = call.name == TASK_TOOL or (call.name in tools and tools[call.name].effect == "read")
        if is_concurrent and is_group_concurrent:
            groups[-1].append(call)
        else:
            groups.append([call])
        is_group_concurrent = is_concurrent
    return groups


async def _run_call(call: ToolCall, position: CallPosition, call_runner: CallRunner) -> ToolOutput:
    call_runner.emit(ToolStarted(call.id, call.name, call.arguments))
    if (earlier_output := call_runner.progress.output_of(call.id)) is not None:
        _emit_finished(call, earlier_output, (), call_runner)
        return earlier_output
    if call_runner.interrupt.is_requested():
        return await _finish_call(
            call, position, call_runner, "cancelled", "not run: the user interrupted the turn before it began"
        )
    context = ApprovalContext(
        call_runner.tools,
        call_runner.workspace,
        call_runner.approver,
        call_runner.interrupt,
        call_runner.emit,
        call_runner.secrets,
        edited_arguments=call_runner.progress.edited_arguments(call.id),
    )
    request: PermissionRequest | None = None
    changed_call: ChangedCall | None = None
    try:
        await _save_open_files(call, call_runner)
        hooked_call, hooks = call, call_runner.hooks
        if hooks is not None:
            hooked_call, hook_ruling = await hooks.run_before_call(call, partial(require_tool, tools=call_runner.tools))
            context = replace(context, hook_ruling=hook_ruling, ask_hooks=hooks.run_permission_hooks)
        while True:
            approval = await (approve_plan if call.name == PLAN_TOOL else approve)(hooked_call, context)
            if approval.is_edited:
                changed_call = ChangedCall(approval.call)
            elif hooked_call.arguments != call.arguments:
                changed_call = ChangedCall(hooked_call, "A hook")
                call_runner.emit(CallEdited(call.id, call.name, hooked_call.arguments))
            if call_runner.interrupt.is_requested():
                text = "not run: the user interrupted the turn before it began"
                return await _finish_call(call, position, call_runner, "cancelled", text, changed_call=changed_call)
            if approval.refusal:
                return await _finish_call(
                    call, position, call_runner, "denied", approval.refusal, changed_call=changed_call
                )
            request = approval.request
            if not request.runs_in_read_only_sandbox:
                await call_runner.progress.record_start(call.id)
            is_unsandboxed = (
                runs_unsandboxed(request, call_runner.approver.policy) if request.effect == "run" else False
            )
            result = await _run_tool(approval, call_runner, is_unsandboxed=is_unsandboxed)
            if not (result and _needs_approval(result, call_runner)):
                break
            context = replace(context, denied_access=result.denied_access)
        if result is not None and result.sandbox_block and not request.runs_in_read_only_sandbox:
            rerun_unsandboxed = partial(_run_tool, approval, call_runner, is_unsandboxed=True)
            result = await retry_unsandboxed(approval, result, context, rerun_unsandboxed)
    except EditedCallError as error:
        return await _finish_call(
            call, position, call_runner, "failed", str(error), changed_call=ChangedCall(error.call)
        )
    except ToolError as error:
        return await _finish_call(
            call, position, call_runner, "failed", str(error), request=request, changed_call=changed_call
        )
    if result is None:
        text = "interrupted by the user while it was running; it may be half done"
        return await _finish_call(call, position, call_runner, "interrupted", text, changed_call=changed_call)
    result = await _with_diagnostics(result, call_runner)
    return await _finish_call(
        call,
        position,
        call_runner,
        "failed" if result.has_failed else "done",
        result.text,
        result,
        request,
        changed_call,
    )


def _needs_approval(result: Result, call_runner: CallRunner) -> bool:
    """Whether a call failed because it was restricted to reading, and now needs approval to run without that
    restriction. Always false in plan mode."""
    return bool(result.denied_access) and call_runner.approver.policy.mode != "plan"


async def _save_open_files(call: ToolCall, call_runner: CallRunner) -> None:
    """Save unsaved editor changes in the files that a call names, so that the tool sees what the user sees. In plan
    mode, nothing is saved, since the disk must not change. Raises `ToolError`."""
    tool = call_runner.tools.get(call.name)
    if call_runner.save_open_files is no_open_editors or call_runner.approver.policy.mode == "plan":
        return
    if tool is not None and tool.effect in ("read", "write") and not call.problem:
        paths = tool.subjects(call.arguments, call_runner.workspace)
        await call_runner.interrupt.race(call_runner.save_open_files(paths))


async def _with_diagnostics(result: Result, call_runner: CallRunner) -> Result:
    """Add diagnostics for the files that the call changed, unless the user interrupts. If no diagnostics are available,
    add syntax errors."""
    if not result.file_changes or result.has_failed:
        return result
    problems = await call_runner.interrupt.race(call_runner.diagnose_changes(result.file_changes))
    diagnostics = problems.text if problems is not None else ""
    if not diagnostics and any(can_parse(change.path) for change in result.file_changes):
        diagnostics = await asyncio.to_thread(syntax_errors_note, result.file_changes, call_runner.workspace.root)
    return replace(result, text=f"{result.text}\n{diagnostics}", problems=problems) if diagnostics else result


async def _run_tool(
    approval: ApprovalResult, call_runner: CallRunner, *, is_unsandboxed: bool = False
) -> Result | None:
    """Run a tool and return its result, or None if the user interrupted it. Progress of programs that it leaves running
    in the background is not emitted."""
    is_over, mask_secrets = False, call_runner.secrets.stream_hider()

    def show(text: str) -> None:
        # A call in the read-only sandbox might have to run again with approval, so its progress is not emitted.
        if not (is_over or approval.request.runs_in_read_only_sandbox) and (visible_text := mask_secrets(text)):
            call_runner.emit(ToolProgress(approval.call.id, visible_text))

    try:
        access = approval.request.read_only_access
        granted_paths = frozenset((*approval.request.subjects, *(access.paths if access is not None else ())))
        workspace = replace(
            call_runner.workspace,
            on_progress=show,
            call_id=approval.call.id,
            granted_paths=granted_paths,
            is_read_only=access is not None,
            runs_in_read_only_sandbox=approval.request.runs_in_read_only_sandbox,
            change_selection=approval.change_selection,
        )
        workspace = (
            replace(workspace, sandbox=None)
            if is_unsandboxed
            else _with_network_access(workspace, approval, call_runner)
        )
        arguments = arguments_with_secrets(approval.call, approval.tool, call_runner.secrets)
        reads_only = approval.request.read_only_access is not None
        effect, subjects = approval.tool.effect, approval.request.subjects
        if effect != "none":
            await add_git_passwords(call_runner.secrets, call_runner.workspace.root)
        async with call_runner.checkpoint_guard(effect, subjects, reads_only=reads_only, on_progress=show):
            return await call_runner.interrupt.race(approval.tool.run(arguments, workspace))
    finally:
        is_over = True


def _with_network_access(workspace: Workspace, approval: ApprovalResult, call_runner: CallRunner) -> Workspace:
    if workspace.sandbox is None or approval.tool.effect != "run":
        return workspace
    private_hosts = call_runner.private_hosts
    return replace(
        workspace,
        network_policy=agent_calls.network_access.CallNetworkAccess(
            approval.call, call_runner.approver, call_runner.emit, private_hosts
        ),
    )


async def _finish_call(
    call: ToolCall,
    position: CallPosition,
    call_runner: CallRunner,
    status: OutputStatus,
    text: str,
    result: Result | None = None,
    request: PermissionRequest | None = None,
    changed_call: ChangedCall | None = None,
) -> ToolOutput:
    """Build and record the output of a call. `changed_call`: the call as changed by the user or a hook, or None; a note
    in the output informs the model of the change."""
    changed_files = (
        tuple(display_path(path, call_runner.workspace.root) for path in result.changed_files) if result else ()
    )
    if result and result.file_changes:
        await call_runner.record_file_changes(result.file_changes)
    final_call = changed_call.call if changed_call is not None else call
    output = await call_runner.output_store.store_and_show(
        final_call, position, status, result or Result(text), request
    )
    if note := "\n".join(
        filter(None, (call.note, build_edit_note(call, final_call, changed_call.changed_by) if changed_call else ""))
    ):
        frame = "\n".join(part for part in (output.frame, note) if part) if output.stored or output.whole else ""
        output = replace(output, text=f"{note}\n{output.text}", frame=frame)
        output = replace(output, inserted=shift_ranges(output.inserted, len(note) + 1))
    if changed_call is not None:
        output = replace(output, edited=dict(final_call.arguments))
    if warning := _repeat_warning(final_call, output, call_runner):
        frame = "\n".join(part for part in (output.frame, warning) if part) if output.stored or output.whole else ""
        output = replace(output, text=f"{output.text}\n{warning}", frame=frame)
    _emit_finished(call, output, changed_files, call_runner, await _diff_of(result, call_runner))
    await call_runner.progress.record_output(output)
    return output


async def _diff_of(result: Result | None, call_runner: CallRunner) -> str:
    """Return a diff of the files that a call changed; empty if events include no diffs or the tool reports no file
    changes."""
    if result is None or not result.file_changes or not call_runner.emits_diffs:
        return ""
    changes = [Change(change.path, change.old_content, change.new_content) for change in result.file_changes]
    return call_runner.secrets.hide(await asyncio.to_thread(diff_changes, changes, call_runner.workspace.root))


def _emit_finished(
    call: ToolCall, output: ToolOutput, changed_files: tuple[str, ...], call_runner: CallRunner, diff: str = ""
) -> None:
    text, inserted = call_runner.secrets.hide_with_ranges(output.text, output.inserted)
    line_count = output.stored.lines if output.stored is not None else None
    problems = output.problems
    if problems is not None:
        problems = replace(problems, lines=tuple(map(call_runner.secrets.hide, problems.lines)))
    call_runner.emit(
        ToolFinished(
            call.id, call.name, output.status, text, changed_files, line_count, inserted, output.program, diff, problems
        )
    )


def _repeat_warning(call: ToolCall, output: ToolOutput, call_runner: CallRunner) -> str:
    tool = call_runner.tools.get(call.name)
    guard = call_runner.loop_guard
    return guard.count_call(call, output, tool.effect if tool else "none") if guard else ""
