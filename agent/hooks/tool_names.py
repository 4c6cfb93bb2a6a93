"""Translates calls to the tool and argument names of Claude Code, for which most hooks are written.
`ebbtide.tools.call_arguments.foreign_calls` does the reverse."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.messages import ToolCall
from ebbtide.tools import edits as tools_edits
from ebbtide.tools.apply_patch import ApplyPatch
from ebbtide.tools.tool_traits import builtin_traits, traits_of

ClaudeInput: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class ClaudeToolCall:
    """A call in Claude Code's terms."""

    name: str
    input: Mapping[str, object]
    aliases: tuple[str, ...] = ()
    """Former or alternative names of the tool."""
    is_complete: bool = True
    """Whether this describes the whole call, so that an input changed by a hook can replace the call's arguments."""
    our_name: str = ""
    """This program's name for the tool."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool in Claude Code."""
        return (self.name, *self.aliases)


_FEATURE_NAMES: Mapping[str, tuple[str, ...]] = {"skill": ("Skill",)}
"""Claude Code's names for features that are not tools in this program."""
CLAUDE_MODES: Mapping[PermissionMode, str] = {
    "ask": "default", "accept-edits": "acceptEdits", "plan": "plan", "auto": "bypassPermissions",
}  # fmt: skip
PATH_ARGUMENTS = ("file_path", "notebook_path", "path")
"""Argument names that contain paths; they are absolute in Claude Code."""


@cache
def _claude_names() -> Mapping[str, tuple[str, ...]]:
    builtin_names = {tool: traits.claude_names for tool, traits in builtin_traits().items() if traits.claude_names}
    return {**_FEATURE_NAMES, **builtin_names}


@cache
def _tools_by_claude_name() -> Mapping[str, str]:
    claude_names = (
        (tool_name, name) for tool_name, claude_names in _claude_names().items() for name in (tool_name, *claude_names)
    )
    return {name.replace("_", "").lower(): tool_name for tool_name, name in claude_names} | {"patch": ApplyPatch.name}


def to_claude_calls(call: ToolCall, root: str) -> tuple[ClaudeToolCall, ...]:
    """Translate a call into Claude Code's terms. A patch results in one call for each changed file. `root` is the
    working folder."""
    traits = traits_of(call.name)
    if traits.role == "patch_files":
        claude_calls = _claude_patch_calls(str(call.arguments.get("patch", "")), root)
        return tuple(replace(view, our_name=call.name) for view in claude_calls)
    names, argument_names = _claude_names().get(call.name, (call.name,)), traits.claude_arguments
    arguments: ClaudeInput = {argument_names.get(name, name): value for name, value in call.arguments.items()}
    for name in PATH_ARGUMENTS if call.name in _claude_names() else ():
        if isinstance(path := arguments.get(name), str):
            arguments[name] = absolute_path(path, root)
    if traits.convert_to_claude is not None:
        traits.convert_to_claude(arguments)
    if traits.role == "edit_file" and isinstance(edits := arguments.get("edits"), list):
        arguments["edits"] = [_claude_edit(edit, argument_names) for edit in edits]
        return (ClaudeToolCall("MultiEdit", arguments, ("Edit",), our_name=call.name),)
    return (ClaudeToolCall(names[0], arguments, names[1:], our_name=call.name),)


def claude_name_and_arguments(call: ToolCall, root: str) -> tuple[str, Mapping[str, object]]:
    """Translate the name and arguments of a call to Claude Code's terms. A patch keeps our name and arguments."""
    claude_call = to_claude_calls(call, root)[0]
    return (claude_call.name, claude_call.input) if claude_call.is_complete else (call.name, call.arguments)


def to_our_names(tool_names: Sequence[str]) -> tuple[str, ...]:
    """Translate Claude Code's tool names, such as `Read` and `Bash(git log:*)`, to ours. Case and the part in
    parentheses are ignored. Other names are returned unchanged."""
    names = (name.partition("(")[0].strip() for name in tool_names)
    return tuple(dict.fromkeys(_tools_by_claude_name().get(name.replace("_", "").lower(), name) for name in names))


def has_claude_name(name: str) -> bool:
    """Whether `name` belongs to a tool that has different names here and in Claude Code."""
    names = _claude_names()
    return name in names or any(name in claude_names for claude_names in names.values())


def absolute_path(path: str, root: str) -> str:
    """Make a path absolute. Links are not resolved, because hook scripts check file names."""
    return posixpath.normpath(posixpath.join(root, path))


def _claude_edit(edit: object, argument_names: Mapping[str, str]) -> object:
    return (
        {argument_names.get(name, name): value for name, value in edit.items()} if isinstance(edit, Mapping) else edit
    )


def _claude_patch_calls(patch: str, root: str) -> tuple[ClaudeToolCall, ...]:
    """Split a patch into one edit per file, because hook scripts check `file_path`."""
    patch_call = ClaudeToolCall(ApplyPatch.name, {"patch": patch}, ("Edit", "Write", "MultiEdit"))
    try:
        files = tools_edits.patch.parse_patch(patch)
    except tools_edits.patch.PatchError:
        return (patch_call,)
    claude_calls: list[ClaudeToolCall] = []
    for file in files:
        path = absolute_path(file.path, root)
        match file:
            case tools_edits.patch.AddFile(content=content):
                claude_calls.append(ClaudeToolCall("Write", {"file_path": path, "content": content}, is_complete=False))
            case tools_edits.patch.DeleteFile():
                claude_calls.append(_claude_edit_call(path, (), ()))
            case tools_edits.patch.UpdateFile(hunks=hunks, move_to=new_path):
                old = [line for hunk in hunks for line in hunk.old]
                new = [line for hunk in hunks for line in hunk.new]
                claude_calls.append(_claude_edit_call(path, old, new))
                if new_path:
                    arguments = {"file_path": absolute_path(new_path, root), "content": "\n".join(new)}
                    claude_calls.append(ClaudeToolCall("Write", arguments, is_complete=False))
    return tuple(claude_calls) or (patch_call,)


def _claude_edit_call(path: str, old: Sequence[str], new: Sequence[str]) -> ClaudeToolCall:
    arguments = {"file_path": path, "old_string": "\n".join(old), "new_string": "\n".join(new)}
    return ClaudeToolCall("Edit", arguments, ("MultiEdit",), is_complete=False)
