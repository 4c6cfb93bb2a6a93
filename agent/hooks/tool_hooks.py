"""Runs hooks around a call: before it, when it needs approval, and after it. Their feedback is added to the output."""

import asyncio
import json
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ebbtide.agent.channel import Channel
from ebbtide.agent.config.hook_tables import HookEvent
from ebbtide.agent.config.option_values import AfterToolHook
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.hooks.answers import HookAnswer, HookRuling, build_failure_answer, stricter_ruling
from ebbtide.agent.hooks.declarations import DeclaredHook, after_tool_hooks
from ebbtide.agent.hooks.output_file import temporary_output_path, write_output
from ebbtide.agent.hooks.runner import run_and_parse, run_program
from ebbtide.agent.hooks.session_hooks import CheckpointSaver, SessionHooks
from ebbtide.agent.hooks.tool_names import absolute_path
from ebbtide.agent.messages import OutputStatus, ToolCall
from ebbtide.agent.view.stubs import HOOK_NOTE_PREFIX
from ebbtide.tools.base import AppliedChange, Arguments, Result, Tool, ToolError, Workspace
from ebbtide.tools.call_arguments.foreign_calls import translate_arguments
from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.change import comparable_content
from ebbtide.tools.files.line_diff import Region, find_differing_regions
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.files.text import binary_kind, decode_file
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.tool_traits import role_of

MAX_HOOK_OUTPUT_BYTES = 1_000_000
"""Maximum number of output bytes sent to hooks. Hooks can read the whole output from a file."""
MAX_LISTED_REGIONS = 10
"""Maximum number of changed regions listed per file. If there are more, the model must read the file again."""


class ToolHooks:
    """The hooks around the calls of one session, or of one of its sub-agents."""

    def __init__(
        self,
        hooks: SessionHooks | None,
        after_tool: Sequence[AfterToolHook],
        session_id: str,
        project: Path,
        workspace: Workspace,
        channel: Channel,
        save_checkpoint: CheckpointSaver,
        agent_fields: Mapping[str, object],
    ) -> None:
        """`after_tool`: the hooks of `hooks.after_tool`, which run even without other hooks. `save_checkpoint`
        saves checkpoints before hooks, such as formatters, change files after a call. `agent_fields`: fields for hooks
        about the sub-agent that makes the calls, if any."""
        self._hooks, self._after_tool_hooks, self._agent_fields = hooks, after_tool_hooks(after_tool), agent_fields
        self._session_id, self._project = session_id, project
        self._workspace, self._channel, self._save_checkpoint = workspace, channel, save_checkpoint
        self.root = str(workspace.root)
        self._contexts: dict[str, str] = {}
        """Context that hooks added before calls, by call id. It is appended to the calls' outputs."""

    async def run_before_call(
        self, call: ToolCall, find_tool: Callable[[ToolCall], Tool]
    ) -> tuple[ToolCall, HookRuling | None]:
        """Run hooks before a call. Return the call as changed by them, and their ruling. Hooks are not run for invalid
        calls, for which `find_tool` raises `ToolError`."""
        if self._hooks is None:
            return call, None
        try:
            tool = find_tool(call)
        except ToolError:
            return call, None
        rule_match = self._hooks.rule_ruling(call)
        if (rule_match is not None and rule_match.verdict == "deny") or not self._hooks.has_hooks("PreToolUse"):
            return call, rule_match
        answer, name = await self._hooks.ask_before_call(call, self._agent_fields)
        if answer.context and answer.verdict != "deny":
            self._contexts[call.id] = _context_note(name, answer.context)
        ruling = stricter_ruling(answer.ruling, rule_match)
        if answer.arguments is None or answer.verdict == "deny":
            return call, ruling
        try:
            properties = tool.schema.get("properties")
            parameter_names = tuple(properties) if isinstance(properties, Mapping) else ()
            new_arguments = translate_arguments(tool.name, name, answer.arguments, parameter_names, self.root)
            changed_call = replace(
                call, arguments=_restore_path_spelling(new_arguments, call.arguments, self.root), source=""
            )
            find_tool(changed_call)
        except ToolError as error:
            return call, HookRuling("deny", f"it changed the input into one that cannot be used: {error}")
        return changed_call, stricter_ruling(ruling, self._hooks.rule_ruling(changed_call))

    async def run_permission_hooks(self, call: ToolCall) -> HookRuling | None:
        """Run `PermissionRequest` hooks for a call that needs the user's approval, and return their ruling; None if
        they do not decide."""
        if self._hooks is None or not self._hooks.has_hooks("PermissionRequest"):
            return None
        return (await self._hooks.ask_about_call("PermissionRequest", call, self._agent_fields)).ruling

    async def run_after_call(
        self,
        call: ToolCall,
        status: OutputStatus,
        result: Result,
        *,
        reads_only: bool,
        rule_matches: Callable[[str], bool],
    ) -> tuple[str, Result]:
        """Run hooks after a call. Return their feedback for the model, and the result, whose output they may have
        replaced. `reads_only`: the call cannot have changed files. `rule_matches`: returns whether a permission rule
        matches the call."""
        context = self._contexts.pop(call.id, "")
        matching_hooks = [hook for hook in self._after_tool_hooks if rule_matches(hook.entry.matcher)]
        event: HookEvent = "PostToolUseFailure" if status == "failed" else "PostToolUse"
        hooks = self._hooks if self._hooks is not None and self._hooks.has_hooks(event) else None
        if role_of(call.name) == "recall_output" or not (matching_hooks or hooks):
            return context, result
        feedback: list[str] = []
        answer = HookAnswer()
        try:
            with temporary_output_path(result, self._workspace.outputs_folder) as path:
                size = await asyncio.to_thread(write_output, result, path)
                payload = await self._output_fields(call, status, result, path) if hooks is not None else {}
                file_fields = {"output_path": str(path), "bytes": size}
                async with self._save_checkpoint(reads_only=reads_only):
                    feedback = await self._run_after_tool(matching_hooks, call, status, file_fields)
                    if hooks is not None:
                        answer = await hooks.ask_about_call(
                            event, call, {**self._agent_fields, **file_fields, **payload}
                        )
        except OSError as error:
            self._report_write_failure(matching_hooks, hooks, error)
        change_note = describe_hook_changes(call, result.file_changes, self._workspace)
        feedback_texts = (context, change_note, *feedback, *feedback_lines(call.name, answer))
        return "\n".join(
            filter(None, feedback_texts)
        ), result if answer.replacement_output is None else _replace_output(result, answer.replacement_output)

    async def _output_fields(
        self, call: ToolCall, status: OutputStatus, result: Result, path: Path
    ) -> Mapping[str, object]:
        """Return the fields that describe an output to the session's hooks."""
        text = (await asyncio.to_thread(read_prefix, path, MAX_HOOK_OUTPUT_BYTES)).decode("utf-8", "replace")
        if status == "failed":
            return {"error": text, "is_interrupt": False}
        return {"tool_response": _claude_response(call, text, result, self.root)}

    async def _run_after_tool(
        self, hooks: Sequence[DeclaredHook], call: ToolCall, status: OutputStatus, file_fields: Mapping[str, object]
    ) -> list[str]:
        """Run the hooks in `hooks.after_tool` one after another, and return their feedback. An interrupt cancels
        them."""
        payload = {
            "session": self._session_id,
            "tool": call.name,
            "arguments": dict(call.arguments),
            "status": status,
            "cwd": self.root,
            **file_fields,
        }
        answers = []
        for hook in hooks:
            run = partial(run_program, hook, json.dumps(payload).encode(), self._workspace, str(self._project))
            answer = await self._channel.interrupt.race(run_and_parse(hook, run))
            answers.append(answer or HookAnswer())
        for line in (line for answer in answers for line in answer.problems):
            self._channel.emit(Noticed(line))
        return [
            line
            for hook, answer in zip(hooks, answers, strict=True)
            for line in feedback_lines(hook.entry.matcher, answer)
        ]

    def _report_write_failure(
        self, after_tool: Sequence[DeclaredHook], hooks: SessionHooks | None, error: OSError
    ) -> None:
        problem = f"could not be written to a file: {error}"
        for hook in after_tool[:1]:
            self._channel.emit(
                Noticed(build_failure_answer(hook.event, hook.display_name, f"the output {problem}").problems[0])
            )
        if hooks is not None:
            self._channel.emit(Noticed(f"hooks were not run for an output, since it {problem}"))


def feedback_lines(source: str, answer: HookAnswer) -> Iterator[str]:
    """Yield the lines that report a hook's answer to the model after a call. `source`: the name of the tool, or the
    hook's rule."""
    if answer.verdict == "deny":
        yield f"{HOOK_NOTE_PREFIX}`{source}` objects; take it into account:]\n{answer.reason}"
    if answer.context:
        yield _context_note(source, answer.context)
    if answer.replacement_output is not None:
        yield f"{HOOK_NOTE_PREFIX}`{source}` replaced the output with this]"


def _context_note(name: str, context: str) -> str:
    return f"{HOOK_NOTE_PREFIX}`{name}` notes:]\n{context}"


def _replace_output(result: Result, output: str) -> Result:
    """Replace the output of a result. Only a program's exit status is kept from the original."""
    if result.log is not None and result.log.is_finished:
        result.log.path.unlink(missing_ok=True)
    exit_text = result.program.told if result.program is not None else ""
    text = f"{output.rstrip(chr(10))}\n{exit_text}" if exit_text else output
    program = replace(result.program, is_silent=False) if result.program is not None else None
    without_output = replace(result, log=None, full_text=None, images=(), files=(), extent=None, problems=None)
    return replace(without_output, text=text, program=program)


def _restore_path_spelling(new_arguments: Arguments, old_arguments: Arguments, root: str) -> Arguments:
    """Return the new arguments, but keep the model's spelling of unchanged paths."""
    unchanged = {
        name: old_arguments[name]
        for name in new_arguments
        if name in old_arguments and _is_same_path(new_arguments[name], old_arguments[name], root)
    }
    return {**new_arguments, **unchanged}


def _is_same_path(new_value: object, old_value: object, root: str) -> bool:
    return (
        isinstance(new_value, str)
        and isinstance(old_value, str)
        and posixpath.isabs(new_value)
        and new_value == absolute_path(old_value, root)
    )


def _claude_response(call: ToolCall, text: str, result: Result, root: str) -> object:
    """Convert the result of a call to the format of Claude Code's tools, which hooks expect."""
    path = absolute_path(str(call.arguments.get("path", "")), root)
    match role_of(call.name):
        case "run_command" | "read_job":
            stdout_text = result.program.printed_text(text) if result.program is not None else text
            code = result.program.code if result.program is not None else None
            return {"stdout": stdout_text, "stderr": "", "interrupted": False, "isImage": False, "exit_code": code}
        case "write_file" | "edit_file" | "edit_cells" | "patch_files":
            paths = [str(changed_file) for changed_file in result.changed_files] or [path]
            return {"filePath": paths[0], "filePaths": paths, "success": True, "content": text}
        case "read_file":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case _ if call.name.startswith("mcp__"):
            return [{"type": "text", "text": text}]
        case _:
            return {"content": text}


# Changes that hooks made.


def describe_hook_changes(call: ToolCall, written_files: Sequence[AppliedChange], workspace: Workspace) -> str:
    """List the line numbers that hooks, such as formatters, changed in files that the call has just written. These
    files then count as read, so that the model can edit them without reading them again. The text of the lines is not
    included, because rules may forbid reading the file."""
    file_lines = []
    for written_file in written_files:
        current_content = comparable_content(written_file.path) if written_file.new_content is not None else None
        if (
            written_file.new_content is None
            or current_content is None
            or workspace.seen_files.view_state(written_file.path, current_content) == "current"
        ):
            continue
        changed_lines = _changed_lines_text(written_file.new_content, current_content)
        if changed_lines:
            workspace.seen_files.record_partial_view(written_file.path, current_content)
            file_lines.append(f"`{display_path(written_file.path, workspace.root)}`, {changed_lines}")
    return (
        f"{HOOK_NOTE_PREFIX}`{call.name}` has changed what it wrote:]\n" + "\n".join(file_lines) if file_lines else ""
    )


def _changed_lines_text(old_content: bytes, new_content: bytes) -> str:
    """Format the numbers of the changed lines in the new content. Empty if there are too many or the file is binary."""
    if binary_kind(old_content) or binary_kind(new_content):
        return ""
    old_lines, new_lines = (decode_file(content).normalised_text.splitlines() for content in (old_content, new_content))
    regions = find_differing_regions(old_lines, new_lines)
    return (
        join_limited(list(map(_region_text, regions)), MAX_LISTED_REGIONS) if len(regions) <= MAX_LISTED_REGIONS else ""
    )


def _region_text(region: Region) -> str:
    first, last = region.new_start + 1, region.new_end
    if last < first:
        return f"lines removed before line {first}"
    return f"line {first}" if first == last else f"lines {first}-{last}"
