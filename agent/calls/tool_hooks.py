"""Runs hooks around a call: before it, for approval, and after it, with feedback that follows the output."""

import asyncio
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import replace

from ebbtide.agent.calls.approval import ApprovalContext
from ebbtide.agent.calls.argument_aliases import our_arguments
from ebbtide.agent.calls.execute import Guard
from ebbtide.agent.calls.hook_changes import hook_change_lines
from ebbtide.agent.calls.hook_rulings import NO_DECISION, HookDecision, HookedCall, rule_decision, stricter
from ebbtide.agent.calls.hooks import CHANGING, RETRIEVERS, as_file, written_to_disk
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.resolve import tool_for
from ebbtide.agent.config.hook_tables import HookEvent
from ebbtide.agent.context.mask import HOOK_NOTE_PREFIX
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.hooks.session_hooks import SessionHooks
from ebbtide.agent.hooks.tool_names import absolute
from ebbtide.agent.messages import OutputStatus, ToolCall
from ebbtide.tools.base import Arguments, Result, ToolError, Workspace
from ebbtide.tools.files.bounded import beginning_of

MAX_HOOK_OUTPUT_BYTES = 1_000_000
"""Largest part of an output that hooks are sent, in bytes; a file contains all of it."""


class ToolHooks:
    """The tool hooks of one session."""

    def __init__(
        self,
        hooks: SessionHooks,
        workspace: Workspace,
        emit: Callable[[Event], None],
        guard: Guard,
        agent: Mapping[str, object],
    ) -> None:
        """`guard`: saves files that hooks may change after a call, as formatters do. `agent`: what they are told
        about the agent that makes the calls, if any."""
        self._hooks, self._workspace, self._emit, self._guard, self._agent = hooks, workspace, emit, guard, agent
        self._contexts: dict[str, str] = {}
        """Context that hooks added before calls, to be appended to their outputs."""

    async def before(self, call: ToolCall, context: ApprovalContext) -> HookedCall:
        """The call as changed by hooks, and their decision. Hooks are not run for invalid calls."""
        try:
            tool = tool_for(call, context.tools)
        except ToolError:
            return HookedCall(call)
        by_rules = rule_decision(self._hooks.ruling(call))
        if by_rules.verdict == "deny" or not self._hooks.has("PreToolUse"):
            return HookedCall(call, by_rules)
        answer, name = await self._hooks.before_call(call, self._agent)
        if answer.context and answer.verdict != "deny":
            self._contexts[call.id] = f"{HOOK_NOTE_PREFIX}`{name}` notes:]\n{answer.context}"
        word = stricter(HookDecision(answer.verdict, answer.reason, is_own=answer.is_own), by_rules)
        if answer.arguments is None or answer.verdict == "deny":
            return HookedCall(call, word)
        try:
            properties = tool.schema.get("properties")
            known = tuple(properties) if isinstance(properties, Mapping) else ()
            made = our_arguments(tool.name, name, answer.arguments, known, str(self._workspace.root))
            changed = replace(call, arguments=_as_before(made, call.arguments, str(self._workspace.root)), source="")
            tool_for(changed, context.tools)
        except ToolError as error:
            return HookedCall(call, HookDecision("deny", f"it changed the input into one that cannot be used: {error}"))
        word = stricter(word, rule_decision(self._hooks.ruling(changed)))
        return HookedCall(changed, word, is_changed=changed.arguments != call.arguments)

    async def permission(self, call: ToolCall) -> HookDecision:
        """The hooks' decision about a call that the user would be asked about."""
        if not self._hooks.has("PermissionRequest"):
            return NO_DECISION
        answer, _ = await self._hooks.permission(call, self._agent)
        return HookDecision(answer.verdict, answer.reason, is_own=answer.is_own)

    async def feedback_on(
        self, call: ToolCall, asked: PermissionRequest, status: OutputStatus, raw: Result
    ) -> tuple[str, Result]:
        """The hooks' feedback on an output, for the model, and the output, which they may have replaced."""
        said = [self._contexts.pop(call.id, "")]
        event: HookEvent = "PostToolUseFailure" if status == "failed" else "PostToolUse"
        if self._hooks.has(event) and call.name not in RETRIEVERS:
            try:
                heard, output = await self._run_after_hooks(call, asked, status, raw)
                changed = hook_change_lines(call, raw.file_changes, self._workspace)
                raw = raw if output is None else _in_place_of(raw, output)
                said += [changed, heard]
            except OSError as error:
                self._emit(
                    Noticed(f"hooks were not run for an output, since it could not be written to a file: {error}")
                )
        return "\n".join(filter(None, said)), raw

    async def _run_after_hooks(
        self, call: ToolCall, asked: PermissionRequest, status: OutputStatus, raw: Result
    ) -> tuple[str, str | None]:
        reads_only = asked.effect not in CHANGING or asked.read_only is not None
        with as_file(raw, self._workspace.outputs) as path:
            size = await asyncio.to_thread(written_to_disk, raw, path)
            text = (await asyncio.to_thread(beginning_of, path, MAX_HOOK_OUTPUT_BYTES)).decode("utf-8", "replace")
            response = _response(call, text, raw, str(self._workspace.root))
            told: dict[str, object] = {**self._agent, "output_path": str(path), "bytes": size}
            told |= {"error": text, "is_interrupt": False} if status == "failed" else {"tool_response": response}
            async with self._guard("run", (), reads_only=reads_only, show=lambda _: None):
                answer = await self._hooks.after_call(call, told, failed=status == "failed")
        lines = (
            f"{HOOK_NOTE_PREFIX}`{call.name}` objects; take it into account:]\n{answer.reason}"
            if answer.verdict == "deny"
            else "",
            f"{HOOK_NOTE_PREFIX}`{call.name}` notes:]\n{answer.context}" if answer.context else "",
            f"{HOOK_NOTE_PREFIX}`{call.name}` has put this in the place of the output]"
            if answer.output is not None
            else "",
        )
        return "\n".join(filter(None, lines)), answer.output


def _in_place_of(raw: Result, output: str) -> Result:
    """The result with the output replaced: nothing of the original is kept, except how a program ended."""
    if raw.log is not None and raw.log.is_finished:
        raw.log.path.unlink(missing_ok=True)
    ending = raw.program.told if raw.program is not None else ""
    text = f"{output.rstrip(chr(10))}\n{ending}" if ending else output
    program = replace(raw.program, is_silent=False) if raw.program is not None else None
    without = replace(raw, log=None, uncut=None, pictures=(), files=(), extent=None, problems=None)
    return replace(without, text=text, program=program)


def _as_before(made: Arguments, before: Arguments, root: str) -> Arguments:
    """The arguments with paths as the model wrote them, if they lead to the same place."""
    kept = {name: before[name] for name in made if name in before and _is_same_path(made[name], before[name], root)}
    return {**made, **kept}


def _is_same_path(one: object, other: object, root: str) -> bool:
    return isinstance(one, str) and isinstance(other, str) and posixpath.isabs(one) and one == absolute(other, root)


def _response(call: ToolCall, text: str, raw: Result, root: str) -> object:
    """The result of a call in the format of Claude Code's tools, which hooks expect."""
    printed = raw.program.printed_in(text) if raw.program is not None else text
    path = absolute(str(call.arguments.get("path", "")), root)
    match call.name:
        case "bash" | "bash_output":
            code = raw.program.code if raw.program is not None else None
            return {"stdout": printed, "stderr": "", "interrupted": False, "isImage": False, "exit_code": code}
        case "write" | "edit" | "edit_notebook" | "apply_patch":
            paths = [str(each) for each in raw.changed] or [path]
            return {"filePath": paths[0], "filePaths": paths, "success": True, "content": text}
        case "read":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case name if name.startswith("mcp__"):
            return [{"type": "text", "text": text}]
        case _:
            return {"content": text}
