"""What the model is told of a call that ran as somebody else wanted it: the user, or a hook."""

from collections.abc import Mapping

from ebbtide.agent.context.control_calls import PLAN
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call in place of the one that the model wrote."""

    call: ToolCall
    by: str = "The user"


_SHORT = 200
"""Characters of a value that is told as it is, when it is one line."""

_MAX_NOTE_CHARS = 20_000
"""Characters that are told at most."""


def edit_note(call: ToolCall, edited: ToolCall, by: str = "The user") -> str:
    """What stands before the output: each argument that is another one now, as it is, or what changed in it. A plan
    that is to be carried out is told whole."""
    if call.name == PLAN:
        return f"[{by} changed the plan. It is now:\n{edited.arguments['plan']}]"
    names = dict.fromkeys((*call.arguments, *edited.arguments))
    told = [_argument_change(name, call.arguments, edited.arguments) for name in names if _differs(name, call, edited)]
    text = "\n".join([f"[{by} changed this call before it ran.", *told])
    if len(text) > _MAX_NOTE_CHARS:
        text = f"{text[:_MAX_NOTE_CHARS]}\n… the rest is not shown: look at what is there now before you rely on it"
    return f"{text}]"


def _differs(name: str, call: ToolCall, edited: ToolCall) -> bool:
    return call.arguments.get(name) != edited.arguments.get(name)


def _argument_change(name: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    if name not in after:
        return f"`{name}` was left out."
    old, new = str(before.get(name, "")), str(after[name])
    if "\n" not in new and len(new) <= _SHORT:
        return f"`{name}` was: {new}"
    changed = "\n".join(unified_diff(name, old, new)[2:])
    whole = f"`{name}` was:\n{new}"
    return whole if len(whole) <= len(changed) else f"`{name}` was, compared with yours:\n{changed}"
