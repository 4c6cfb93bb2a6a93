"""How a call ended, in a few words, and what of its output says why. Pure; it knows no ink."""

from typing import TYPE_CHECKING

from agent.context.control_calls import PLAN
from agent.context.offload import own_words
from agent.messages import BY_USER
from tools.extent import counted as so_many
from tools.submit_plan import ACCEPTED
from tui.text.unified_diff import counted
from tui.view.blocks import Call

if TYPE_CHECKING:  # types only
    from agent.events import ToolFinished

FEW, USERS_LINES = 3, 12
"""Lines that a folded call shows: of a failure, and of what a command of the user printed."""

_AS_JOB = ("background", "terminal", "job")
"""Arguments of a command that is a job from the beginning, or is written to one."""
_EDITED = "as you changed it"


def outcome_of(call: Call, diff: str) -> str:
    """What stands behind the title of a call; `diff` is what it changed."""
    outcome = _ending(call, diff)
    return f"{_EDITED}  {outcome}".rstrip() if call.is_edited else outcome


def _ending(call: Call, diff: str) -> str:
    match call.status:
        case "done" if call.name == PLAN:
            return "accepted" if ACCEPTED in call.text else "handed in"
        case "denied" if call.name == PLAN:
            return "not accepted"
        case "done":
            if diff:
                added, removed = counted(diff)
                return f"+{added} −{removed}"
            if call.name == "bash" and call.program and call.program.job and not any(map(call.arguments.get, _AS_JOB)):
                return f"goes on as {call.program.job}"
            count = count_of(call)
            return so_many(count, "line") if count else ""
        case "asking":
            return "waits for you"
        case "failed":
            return call.program.how if call.program else ""
        case "running":
            return ""
        case "denied" | "cancelled" | "interrupted":
            return call.status


def count_of(call: "Call | ToolFinished") -> int:
    """Lines that a call gave back, of all of it where it says so: how a command ended is none of them."""
    return len(_own_lines(call)) if call.lines is None else call.lines


def few_lines(call: Call) -> tuple[tuple[str, ...], bool]:
    """What a call that is over shows of its output while it is folded, and whether a command printed it: long lines of
    programs are cut, the sentences of tools are not."""
    if call.call_id.startswith(BY_USER):
        return _own_lines(call)[-USERS_LINES:], True
    if call.status == "failed" or (call.name == PLAN and call.status == "denied"):
        return why_failed(call), call.program is not None
    return (), True


def why_failed(call: "Call | ToolFinished") -> tuple[str, ...]:
    """The lines of a failed call's output that say why: of what a command printed the last ones, of what a tool says
    the first ones."""
    said = tuple(line for line in _own_lines(call) if line.strip())
    return said[-FEW:] if call.program else said[:FEW]


def _own_lines(call: "Call | ToolFinished") -> tuple[str, ...]:
    text = own_words(call.text, call.inserted)
    said = (call.program.printed_in(text) if call.program else text).strip("\n")
    return tuple(said.split("\n")) if said.strip() else ()
