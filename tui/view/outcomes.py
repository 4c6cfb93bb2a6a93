"""How calls and turns ended, in a few words, and which output lines explain it. Pure."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.context.offload import text_without_insertions
from ebbtide.agent.messages import BY_USER
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.outputs.extent import join_limited
from ebbtide.tools.outputs.extent import pluralize as so_many
from ebbtide.tools.submit_plan import PLAN_ACCEPTED
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.unified_diff import count_changes
from ebbtide.tui.view.blocks import Call
from ebbtide.tui.view.todos import done_of, items_of

if TYPE_CHECKING:  # types only
    from ebbtide.agent.events.session import ToolFinished

ENDS: Mapping[str, str] = {
    "interrupted": "interrupted",
    "step_limit": "stopped: the turn has used all its steps. Send a message to go on.",
    "cost_limit": "stopped: the cost limit is reached.",
    "repeated_calls": "stopped: the model made the same call again and again. Say what to do instead.",
    "repeated_text": "stopped: the model said the same again and again. Say what to do, or choose another model.",
    "context_limit": "stopped: the window is full and the model gave no report. `/compact` makes room.",
}
"""Messages for turns that ended without an answer."""
_MAX_NAMED_TOOLS = 6
"""Maximum tools named for a search."""
MAX_FAILURE_LINES, MAX_OUTPUT_LINES, MAX_USER_OUTPUT_LINES = 3, 5, 12
"""Output lines of a collapsed call: of a tool's failure, of a command, and of the user's own command."""
_MAX_RULE_CHARS = 3
"""A line of one repeated character is a divider if longer than this."""

_AS_JOB = ("background", "terminal", "job")
"""Arguments of a command that starts or writes to a background job."""
_EDITED_NOTE = "as you changed it"


def outcome_of(call: Call, diff: str, shown: int = 0) -> str:
    """The text after a call's title. `diff`: what it changed; `shown`: output lines shown below it."""
    outcome = _ending(call, diff, shown)
    return f"{_EDITED_NOTE}  {outcome}".rstrip() if call.is_edited else outcome


def _ending(call: Call, diff: str, shown: int) -> str:
    match call.status:
        case "done" if call.name == PLAN:
            return "accepted" if PLAN_ACCEPTED in call.text else "handed in"
        case "denied" if call.name == PLAN:
            return "not accepted"
        case "done":
            if call.name == "todo":
                return done_of(items_of(call))
            if call.name == "task" and (ended := _agent_ended(call)):
                return ended
            if call.name == "ask_user":
                return f"→ {sanitised_line(', '.join(call.text.strip().splitlines()) or 'no answer')}"
            if diff:
                added, removed = count_changes(diff)
                problems = call.problems.count if call.problems else 0
                return f"+{added} −{removed}" + (f", {so_many(problems, 'new problem')}" if problems else "")
            if call.name == "bash" and call.program and call.program.job and not any(map(call.arguments.get, _AS_JOB)):
                return f"goes on as {call.program.job}"
            count = count_of(call)
            of_all = f"{shown} of " if 0 < shown < count else ""
            return f"{of_all}{so_many(count, 'line')}" if count else ""
        case "asking":
            return "waits for you"
        case "failed":
            return call.program.how if call.program else ""
        case "running":
            return ""
        case "denied" | "cancelled" | "interrupted":
            return call.status


def _agent_ended(call: Call) -> str:
    """How a sub-agent ended and what it used: the first line of its result."""
    line, _, _ = call.text.partition("\n")
    begin = f"[Agent {call.arguments.get('agent')} "
    return sanitised_line(line.removeprefix(begin).removesuffix("]")) if line.startswith(begin) else ""


def count_of(call: "Call | ToolFinished") -> int:
    """Number of output lines of a call, all of them if known, without the exit status."""
    return len(_own_lines(call)) if call.lines is None else call.lines


def few_lines(call: Call) -> tuple[tuple[str, ...], bool]:
    """The output lines shown while a finished call is collapsed, and whether they are a command's output: those are
    cut, tools' messages are not."""
    if call.call_id.startswith(BY_USER):
        return _own_lines(call)[-MAX_USER_OUTPUT_LINES:], True
    if call.status == "failed" or (call.name == PLAN and call.status == "denied"):
        return why_failed(call), call.program is not None
    return (), True


def last_printed(call: Call) -> tuple[str, ...]:
    """The last output lines of a successful command; empty for any other call."""
    if call.status != "done" or not (call.program or call.name == "bash"):
        return ()
    return tuple(line for line in _own_lines(call) if line.strip() and not _divides(line.strip()))[-MAX_OUTPUT_LINES:]


def _divides(line: str) -> bool:
    """Whether a line is a divider, one repeated character."""
    return len(line) > _MAX_RULE_CHARS and len(set(line)) == 1 and not line[0].isalnum()


def why_failed(call: "Call | ToolFinished") -> tuple[str, ...]:
    """The output lines that explain a failure: the first ones of a tool's message, or the last ones of a command's
    output. If an earlier line describes the error better, it is shown with the lines before it and fewer last lines."""
    said = tuple(line for line in _own_lines(call) if line.strip())
    if not call.program:
        return said[:MAX_FAILURE_LINES]
    said = tuple(line for line in said if any(map(str.isalnum, line)))  # no rules
    from ebbtide.agent.context.error_lines import most_telling, weight_of  # noqa: PLC0415  # deferred: behind the first paint

    before, last = said[:-MAX_FAILURE_LINES], said[-MAX_FAILURE_LINES:]
    told = most_telling(before)
    if weight_of(told) <= max(map(weight_of, last), default=0):
        return said[-MAX_OUTPUT_LINES:]
    at = before.index(told)
    between = ("…",) if at + 1 < len(before) else ()
    return (*before[max(0, at - MAX_FAILURE_LINES + 1) : at + 1], *between, *last)


def _own_lines(call: "Call | ToolFinished") -> tuple[str, ...]:
    text = text_without_insertions(call.text, call.inserted)
    said = (call.program.printed_in(text) if call.program else text).strip("\n")
    return tuple(said.split("\n")) if said.strip() else ()


def diff_of(call: Call) -> str:
    """The diff that was shown for approval, or one made from the arguments; empty if the call edits nothing."""
    if call.preview:
        return call.preview
    match call.name, call.arguments:
        case "edit", {"old": str(old), "new": str(new)}:
            return _compare_pieces(old, new)
        case "edit", {"edits": list() | tuple() as edits}:
            pairs = [(each.get("old"), each.get("new")) for each in edits if isinstance(each, Mapping)]
            texts = [(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
            return "\n".join(_compare_pieces(old, new) for old, new in texts)
        case "write", {"content": str(content)}:
            return _compare("", content)
        case "apply_patch", {"patch": str(patch)}:
            return patch
        case _:
            return ""


def file_of(call: Call) -> str:
    """The file that a diff fragment belongs to; empty if the diff names its files."""
    path = call.arguments.get("path")
    return path if isinstance(path, str) else ""


def _compare_pieces(old: str, new: str) -> str:
    whole = "" if old.endswith("\n") or new.endswith("\n") else "\n"  # where they end, the file goes on
    return _compare(old and old + whole, new and new + whole)


@lru_cache(maxsize=64)
def _compare(old: str, new: str) -> str:
    """A diff fragment without line numbers and file name."""
    return "\n".join(unified_diff("", old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))[2:])


def search_summary(names: tuple[str, ...]) -> str:
    """`searched tools: found a, b`; excess names are counted."""
    found = join_limited([f"`{name}`" for name in names], _MAX_NAMED_TOOLS)
    return f"searched the tools: {f'found {found}' if names else 'nothing found'}"
