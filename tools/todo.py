"""The `todo` tool: the model's to-do list and notes. The session reads both from the call's arguments."""

from collections import Counter
from collections.abc import Iterator, Mapping

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import normalise_name, parse_json_list
from ebbtide.tools.call_arguments.schema import get_items, get_text, object_schema
from ebbtide.tools.lazy import regex
from ebbtide.tools.tool_traits import ToolTraits

_STATUSES = ("pending", "doing", "done")
MAX_NOTES_CHARS = 4_000
"""Maximum length of the notes in characters. They are repeated after each compaction."""


_STATUS_ALIASES = {
    "pending": "pending", "todo": "pending", "notstarted": "pending", "open": "pending", "blocked": "pending",
    "cancelled": "done",
    "inprogress": "doing", "active": "doing", "doing": "doing", "started": "doing",
    "completed": "done", "complete": "done", "done": "done", "finished": "done", "closed": "done",
}  # fmt: skip
_CHECKBOX_STATUSES = {" ": "pending", "": "pending", "-": "doing", "~": "doing", ">": "doing", "x": "done", "X": "done"}
_LIST_ITEM = regex(r"\s*(?:[-*]|\d+[.)])?\s*\[(?P<mark>.?)\]\s*(?P<text>.+)")
_CLAUDE_STATUSES = {"pending": "pending", "doing": "in_progress", "done": "completed"}


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    items = arguments.get("items")
    if isinstance(items, str):
        items = parse_json_list(items) or list(_parse_checklist(items)) or items
    if isinstance(items, list):
        arguments["items"] = [_normalise_item(item) for item in items]


def _normalise_item(item: object) -> object:
    if isinstance(item, str):
        return {"text": item, "status": "pending"}
    if not isinstance(item, dict):
        return item
    values_by_name = {normalise_name(str(name)): value for name, value in item.items()}
    names = ("text", "content", "step", "title", "task", "description", "name", "activeform")
    text = next((values_by_name[name] for name in names if values_by_name.get(name)), None)
    status = values_by_name.get("status", values_by_name.get("state"))
    if status is None:
        is_done = values_by_name.get("done", values_by_name.get("completed", values_by_name.get("checked")))
        status = "done" if is_done in (True, "true") else "pending"
    return {"text": text, "status": _STATUS_ALIASES.get(normalise_name(str(status)), status)} if text else item


def _parse_checklist(text: str) -> Iterator[dict[str, object]]:
    """Parse the items of a Markdown checklist, such as `- [x] done`."""
    for line in text.splitlines():
        if (match := _LIST_ITEM.fullmatch(line)) is not None:
            yield {"text": match["text"].strip(), "status": _CHECKBOX_STATUSES.get(match["mark"], "pending")}


def _convert_to_claude_arguments(arguments: dict[str, object]) -> None:
    items = arguments.pop("items", None)
    arguments["todos"] = [_claude_item(item) for item in items] if isinstance(items, list) else []


def _claude_item(item: object) -> object:
    if not isinstance(item, Mapping):
        return item
    text = item.get("text", "")
    return {"content": text, "status": _CLAUDE_STATUSES.get(str(item.get("status")), "pending"), "activeForm": text}


class Todo:
    name = "todo"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="list_todos",
        get_subject=lambda arguments: "",  # the list itself is shown below the title
        aliases="todo_write write_todos update_plan manage_todo_list update_todo_list set_todo_list",
        argument_aliases={"items": "todos plan todo_list tasks list"},
        adapt_arguments=_adapt_arguments,
        claude_names=("TodoWrite",),
        convert_to_claude=_convert_to_claude_arguments,
        small_window_policy="optional",
    )
    schema = object_schema(
        {
            "items": {
                "type": "array",
                "items": object_schema(
                    {"text": {"type": "string"}, "status": {"enum": list(_STATUSES)}}, required=("text", "status")
                ),
            },
            "notes": {"type": "string"},
        },
        required=("items",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        counts = Counter(_status_of(item) for item in get_items(arguments, "items"))
        if counts["doing"] > 1:
            raise ToolError(
                f"{counts['doing']} items are `doing`: only one may be `doing`, so set the others to `pending`"
            )
        counts_text = ", ".join(f"{counts[status]} {status}" for status in reversed(_STATUSES) if counts[status])
        return Result(f"list saved: {counts_text or 'it is empty'}{_notes_status(arguments)}")


def _notes_status(arguments: Arguments) -> str:
    if "notes" not in arguments:
        return ""
    notes = get_text(arguments, "notes")
    if len(notes) > MAX_NOTES_CHARS:
        raise ToolError(f"the notes have {len(notes):,} characters: shorten them to {MAX_NOTES_CHARS:,}")
    return "; notes saved" if notes.strip() else "; notes cleared"


def _status_of(item: object) -> str:
    status = item.get("status") if isinstance(item, dict) else None
    if not isinstance(status, str):
        raise ToolError("each item is an object with `text` and `status`")
    return status
