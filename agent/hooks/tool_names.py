"""Translates calls to Claude Code's tool and argument names, which hooks are written for.
`ebbtide.agent.calls.argument_aliases` is the reverse. Pure."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ebbtide.agent.messages import ToolCall

Input: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class ToolView:
    """A call in Claude Code's terms."""

    name: str
    input: Mapping[str, object]
    aliases: tuple[str, ...] = ()
    """Former or alternative names of the tool."""
    is_whole: bool = True
    """Whether the view describes the whole call, so that a changed input can replace it."""
    ours: str = ""
    """The name of the tool here."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the tool in Claude Code."""
        return (self.name, *self.aliases)


_NAMES: Mapping[str, tuple[str, ...]] = {
    "bash": ("Bash",),
    "bash_output": ("BashOutput", "TaskOutput"),
    "bash_kill": ("KillShell", "KillBash", "TaskStop"),
    "read": ("Read",),
    "write": ("Write",),
    "edit": ("Edit", "MultiEdit"),
    "edit_notebook": ("NotebookEdit",),
    "grep": ("Grep",),
    "glob": ("Glob", "LS"),
    "todo": ("TodoWrite",),
    "ask_user": ("AskUserQuestion",),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "submit_plan": ("ExitPlanMode",),
    "task": ("Task", "Agent"),
    "skill": ("Skill",),
    "tool_search": ("ToolSearch",),
}
"""Claude Code's names of our tools, the current one first."""

OURS = frozenset(_NAMES)
"""Our tools that have another name in Claude Code, including those that a session does not offer."""

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "bash": {"background": "run_in_background"},
    "bash_output": {"job": "bash_id"},
    "bash_kill": {"job": "shell_id"},
    "read": {"path": "file_path"},
    "write": {"path": "file_path"},
    "edit": {"path": "file_path", "old": "old_string", "new": "new_string"},
    "edit_notebook": {
        "path": "notebook_path",
        "action": "edit_mode",
        "cell": "cell_id",
        "source": "new_source",
        "type": "cell_type",
    },
    "grep": {"ignore_case": "-i", "context": "-C", "limit": "head_limit", "mode": "output_mode"},
    "task": {"agent": "subagent_type"},
}
_OURS: Mapping[str, str] = {
    theirs.replace("_", "").lower(): ours for ours, names in _NAMES.items() for theirs in (ours, *names)
} | {"patch": "apply_patch"}
PATHS = ("file_path", "notebook_path", "path")
"""Argument names that contain paths; they are absolute in Claude Code."""
_STATUSES = {"pending": "pending", "doing": "in_progress", "done": "completed"}


def views_of(call: ToolCall, root: str) -> tuple[ToolView, ...]:
    """Return the call in Claude Code's terms; a patch gives one view for each changed file. `root` is the working
    folder."""
    if call.name == "apply_patch":
        views = _of_patch(str(call.arguments.get("patch", "")), root)
        return tuple(replace(view, ours=call.name) for view in views)
    names = _NAMES.get(call.name, (call.name,))
    theirs = _ARGUMENTS.get(call.name, {})
    made: Input = {theirs.get(name, name): value for name, value in call.arguments.items()}
    for name in PATHS if call.name in _NAMES else ():
        if isinstance(path := made.get(name), str):
            made[name] = absolute(path, root)
    if call.name in _REWRITERS:
        _REWRITERS[call.name](made)
    if call.name == "edit" and isinstance(edits := made.get("edits"), list):
        made["edits"] = [_in_their_words(each, theirs) for each in edits]
        return (ToolView("MultiEdit", made, ("Edit",), ours=call.name),)
    return (ToolView(names[0], made, names[1:], ours=call.name),)


def our_names(theirs: Sequence[str]) -> tuple[str, ...]:
    """Map tool names of either kind, such as `Read` and `Bash(git log:*)`, to our names, ignoring case and the part in
    parentheses. Unknown names are returned unchanged."""
    names = (name.partition("(")[0].strip() for name in theirs)
    return tuple(dict.fromkeys(_OURS.get(name.replace("_", "").lower(), name) for name in names))


def is_known(name: str) -> bool:
    """Whether `name` is a tool that has different names here and in Claude Code."""
    return name in OURS or any(name in names for names in _NAMES.values())


def absolute(path: str, root: str) -> str:
    """Return an absolute path. Links are not resolved, since scripts look at file names."""
    return posixpath.normpath(posixpath.join(root, path))


def _in_their_words(edit: object, theirs: Mapping[str, str]) -> object:
    return {theirs.get(name, name): value for name, value in edit.items()} if isinstance(edit, Mapping) else edit


def _bash(made: Input) -> None:
    if isinstance(seconds := made.get("timeout"), int):
        made["timeout"] = 1_000 * seconds


def _grep(made: Input) -> None:
    made["output_mode"] = "files_with_matches" if made.get("output_mode") == "files" else made.get("output_mode")
    if made["output_mode"] is None:
        del made["output_mode"]


def _todo(made: Input) -> None:
    items = made.pop("items", None)
    made["todos"] = [_todo_item(item) for item in items] if isinstance(items, list) else []


def _todo_item(item: object) -> object:
    if not isinstance(item, Mapping):
        return item
    text = item.get("text", "")
    return {"content": text, "status": _STATUSES.get(str(item.get("status")), "pending"), "activeForm": text}


def _ask_user(made: Input) -> None:
    options = made.pop("options", None)
    choices = [{"label": option} for option in options] if isinstance(options, list) else []
    made["questions"] = [{"question": made.pop("question", ""), "options": choices}]


_REWRITERS: Mapping[str, Callable[[Input], None]] = {
    "bash": _bash, "grep": _grep, "todo": _todo, "ask_user": _ask_user,
}  # fmt: skip


def _of_patch(patch: str, root: str) -> tuple[ToolView, ...]:
    """Return each file of a patch as an edit of its own, since guard scripts look at `file_path`."""
    from ebbtide.tools.files.patch import Add, Delete, PatchError, Update, parse  # noqa: PLC0415  # deferred: few calls are patches

    whole = ToolView("apply_patch", {"patch": patch}, ("Edit", "Write", "MultiEdit"))
    try:
        files = parse(patch)
    except PatchError:
        return (whole,)
    views: list[ToolView] = []
    for file in files:
        path = absolute(file.path, root)
        match file:
            case Add(content=content):
                views.append(ToolView("Write", {"file_path": path, "content": content}, is_whole=False))
            case Delete():
                views.append(_edit(path, (), ()))
            case Update(hunks=hunks, move_to=moved):
                old = [line for hunk in hunks for line in hunk.old]
                new = [line for hunk in hunks for line in hunk.new]
                views.append(_edit(path, old, new))
                if moved:
                    made = {"file_path": absolute(moved, root), "content": "\n".join(new)}
                    views.append(ToolView("Write", made, is_whole=False))
    return tuple(views) or (whole,)


def _edit(path: str, old: Sequence[str], new: Sequence[str]) -> ToolView:
    made = {"file_path": path, "old_string": "\n".join(old), "new_string": "\n".join(new)}
    return ToolView("Edit", made, ("MultiEdit",), is_whole=False)
