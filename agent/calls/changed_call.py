"""The note that informs the model that the user or a hook changed a call before it ran."""

from collections.abc import Mapping

from ebbtide.agent.control_calls import PLAN_TOOL
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """The call that replaced the model's call."""

    call: ToolCall
    changed_by: str = "The user"


_MAX_INLINE_VALUE_CHARS = 200
"""Maximum length of a one-line value that is shown in full, in characters."""

_MAX_NOTE_CHARS = 20_000
"""Maximum length of the note, in characters."""


def build_edit_note(call: ToolCall, edited_call: ToolCall, changed_by: str = "The user") -> str:
    """Build the note that precedes the output. It lists each changed argument with its new value or a diff. A changed
    plan is shown in full."""
    if call.name == PLAN_TOOL:
        return f"[{changed_by} changed the plan. It is now:\n{edited_call.arguments['plan']}]"
    names = dict.fromkeys((*call.arguments, *edited_call.arguments))
    changes = [
        _argument_change(name, call.arguments, edited_call.arguments)
        for name in names
        if _differs(name, call, edited_call)
    ]
    text = "\n".join([f"[{changed_by} changed this call before it ran.", *changes])
    if len(text) > _MAX_NOTE_CHARS:
        text = f"{text[:_MAX_NOTE_CHARS]}\n… the rest is not shown: check the result before you rely on it"
    return f"{text}]"


def _differs(name: str, call: ToolCall, edited: ToolCall) -> bool:
    return call.arguments.get(name) != edited.arguments.get(name)


def _argument_change(name: str, old_arguments: Mapping[str, object], new_arguments: Mapping[str, object]) -> str:
    if name not in new_arguments:
        return f"`{name}` was removed."
    old_value, new_value = str(old_arguments.get(name, "")), str(new_arguments[name])
    if "\n" not in new_value and len(new_value) <= _MAX_INLINE_VALUE_CHARS:
        return f"`{name}` now: {new_value}"
    diff = "\n".join(unified_diff(name, old_value, new_value)[2:])
    full_value = f"`{name}` now:\n{new_value}"
    return full_value if len(full_value) <= len(diff) else f"`{name}` now, compared with yours:\n{diff}"
