"""Describes in a few words how calls and turns ended, and selects the output lines that explain why."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ebbtide.agent import view
from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.messages import USER_CALL_PREFIX
from ebbtide.agent.view.previews import text_without_insertions
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.outputs.extent import join_limited, pluralize
from ebbtide.tools.submit_plan import PLAN_ACCEPTED
from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.todos import format_progress, todo_items

if TYPE_CHECKING:
    from ebbtide.agent.events.session import ToolFinished

TURN_END_MESSAGES: Mapping[str, str] = {
    "interrupted": "interrupted",
    "step_limit": "stopped: step limit reached. Send a message to continue.",
    "cost_limit": "stopped: cost limit reached.",
    "repeated_calls": "stopped: the model kept repeating the same call. Tell it what to do instead.",
    "repeated_text": "stopped: the model kept repeating itself. Tell it what to do, or choose another model.",
    "context_limit": "stopped: the window is full and the model gave no report. `/compact` frees space.",
}
"""Messages for turns that ended without an answer."""
_MAX_NAMED_TOOLS = 6
"""Maximum number of tools named in the summary of a tool search."""
MAX_FAILURE_LINES, MAX_OUTPUT_LINES, MAX_USER_OUTPUT_LINES = 3, 5, 12
"""Maximum number of output lines shown for a collapsed call: for a failed tool, a command, and a command that the user
ran."""
_MIN_DIVIDER_CHARS = 4
"""Minimum length at which a line of one repeated character counts as a divider."""

_BACKGROUND_ARGUMENTS = ("background", "terminal", "job")
"""Arguments that start a command as a background job or write to such a job."""
_EDITED_NOTE = "edited by you"


def call_outcome(call: Call, diff: str, line_count: int = 0) -> str:
    """Get the text after a call's title. `diff`: what the call changed. `line_count`: number of output lines shown
    below the title."""
    outcome = _describe_status(call, diff, line_count)
    return f"{_EDITED_NOTE}  {outcome}".rstrip() if call.is_edited else outcome


def _describe_status(call: Call, diff: str, line_count: int) -> str:
    match call.status:
        case "done" if call.name == PLAN_TOOL:
            return "accepted" if PLAN_ACCEPTED in call.text else "submitted"
        case "denied" if call.name == PLAN_TOOL:
            return "not accepted"
        case "done":
            role = role_of(call.name)
            if role == "list_todos":
                return format_progress(todo_items(call))
            if role == "start_agent" and (agent_result := _agent_result(call)):
                return agent_result
            if role == "ask_question":
                return f"→ {sanitise_line(', '.join(call.text.strip().splitlines()) or 'no answer')}"
            if diff:
                added_count, removed_count = count_changes(diff)
                problem_count = call.problems.count if call.problems else 0
                return f"+{added_count} −{removed_count}" + (
                    f", {pluralize(problem_count, 'new problem')}" if problem_count else ""
                )
            if (
                role == "run_command"
                and call.program
                and call.program.job
                and not any(map(call.arguments.get, _BACKGROUND_ARGUMENTS))
            ):
                return f"still running as {call.program.job}"
            count = output_line_count(call)
            visible_prefix = f"last {line_count} of " if 0 < line_count < count else ""
            return f"{visible_prefix}{pluralize(count, 'line')}" if count else ""
        case "asking":
            return "waiting for you"
        case "failed":
            return call.program.outcome_text if call.program else ""
        case "running":
            return ""
        case "denied" | "cancelled" | "interrupted":
            return call.status


def _agent_result(call: Call) -> str:
    """Get the first line of a sub-agent's result: how it ended and what it used."""
    line, _, _ = call.text.partition("\n")
    prefix = f"[Agent {call.arguments.get('agent')} "
    return sanitise_line(line.removeprefix(prefix).removesuffix("]")) if line.startswith(prefix) else ""


def output_line_count(call: "Call | ToolFinished") -> int:
    """Count the lines of a call's output, without the exit status. Lines that the model did not get are included if
    their number is known."""
    return len(_output_lines(call)) if call.lines is None else call.lines


def collapsed_lines(call: Call) -> tuple[tuple[str, ...], bool]:
    """Get the output lines to show for a finished call that is collapsed, and whether they come from a command. Lines
    from a command are cut at the edge of the screen; messages from tools are wrapped."""
    if call.call_id.startswith(USER_CALL_PREFIX):
        return _output_lines(call)[-MAX_USER_OUTPUT_LINES:], True
    if call.status == "failed" or (call.name == PLAN_TOOL and call.status == "denied"):
        return failure_lines(call), call.program is not None
    return (), True


def last_output_lines(call: Call) -> tuple[str, ...]:
    """Get the last output lines of a successful command; empty for any other call."""
    if call.status != "done" or not (call.program or role_of(call.name) == "run_command"):
        return ()
    return tuple(line for line in _output_lines(call) if line.strip() and not _is_divider(line.strip()))[
        -MAX_OUTPUT_LINES:
    ]


def _is_divider(line: str) -> bool:
    """Whether the line is a divider, made of one repeated character."""
    return len(line) >= _MIN_DIVIDER_CHARS and len(set(line)) == 1 and not line[0].isalnum()


def failure_lines(call: "Call | ToolFinished") -> tuple[str, ...]:
    """Select the output lines that explain a failure: the start of a tool's message, or the end of a command's output.
    If an earlier line describes the error better, it is included with the lines just before it, and fewer of the last
    lines are shown."""
    lines = tuple(line for line in _output_lines(call) if line.strip())
    if not call.program:
        return lines[:MAX_FAILURE_LINES]
    lines = tuple(line for line in lines if any(map(str.isalnum, line)))  # without divider lines
    earlier_lines, last_lines = lines[:-MAX_FAILURE_LINES], lines[-MAX_FAILURE_LINES:]
    cause = view.error_lines.strongest_error_line(earlier_lines)
    if view.error_lines.error_weight(cause) <= max(map(view.error_lines.error_weight, last_lines), default=0):
        return lines[-MAX_OUTPUT_LINES:]
    index = earlier_lines.index(cause)
    ellipsis = ("…",) if index + 1 < len(earlier_lines) else ()
    return (*earlier_lines[max(0, index - MAX_FAILURE_LINES + 1) : index + 1], *ellipsis, *last_lines)


def _output_lines(call: "Call | ToolFinished") -> tuple[str, ...]:
    text = text_without_insertions(call.text, call.inserted)
    output = (call.program.printed_text(text) if call.program else text).strip("\n")
    return tuple(output.split("\n")) if output.strip() else ()


def call_diff(call: Call) -> str:
    """Get the diff shown for approval, or derive one from the arguments; empty if the call does not edit a file."""
    if call.diff:
        return call.diff
    match role_of(call.name), call.arguments:
        case "edit_file", {"old": str(old), "new": str(new)}:
            return _fragment_diff(old, new)
        case "edit_file", {"edits": list() | tuple() as edits}:
            pairs = [(edit.get("old"), edit.get("new")) for edit in edits if isinstance(edit, Mapping)]
            texts = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
            return "\n".join(_fragment_diff(old, new) for old, new in texts)
        case "write_file", {"content": str(content)}:
            return _text_diff("", content)
        case "patch_files", {"patch": str(patch)}:
            return patch
        case _:
            return ""


def edited_path(call: Call) -> str:
    """Get the file that a diff fragment belongs to; empty if the diff itself names its files."""
    path = call.arguments.get("path")
    return path if isinstance(path, str) else ""


def _fragment_diff(old: str, new: str) -> str:
    newline = "" if old.endswith("\n") or new.endswith("\n") else "\n"  # a piece may end in mid-line
    return _text_diff(old and old + newline, new and new + newline)


@lru_cache(maxsize=64)
def _text_diff(old: str, new: str) -> str:
    """Build a diff fragment, without line numbers and file names."""
    return "\n".join(unified_diff("", old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))[2:])


def tool_search_summary(names: tuple[str, ...]) -> str:
    """Format `tool search: found a, b`. If there are too many names, the rest are only counted."""
    names_text = join_limited([f"`{name}`" for name in names], _MAX_NAMED_TOOLS)
    return f"tool search: {f'found {names_text}' if names else 'nothing found'}"
