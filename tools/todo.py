"""The `todo` tool: the model's to-do list and notes. Both are read from the call's arguments."""

from collections import Counter

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.schema import items, object_of, text

_STATUSES = ("pending", "doing", "done")
MAX_NOTES_CHARS = 4_000
"""Maximum number of characters in the notes, which are repeated after each compaction."""


class Todo:
    name = "todo"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "items": {
                "type": "array",
                "items": object_of(
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
        counts = Counter(_status_of(item) for item in items(arguments, "items"))
        if counts["doing"] > 1:
            raise ToolError(f"{counts['doing']} items are `doing`: only one may be, set the others to `pending`")
        told = ", ".join(f"{counts[status]} {status}" for status in reversed(_STATUSES) if counts[status])
        return Result(f"list kept: {told or 'it is empty'}{_notes_status(arguments)}")


def _notes_status(arguments: Arguments) -> str:
    if "notes" not in arguments:
        return ""
    notes = text(arguments, "notes")
    if len(notes) > MAX_NOTES_CHARS:
        raise ToolError(f"the notes have {len(notes):,} characters: shorten them to {MAX_NOTES_CHARS:,}")
    return "; notes kept" if notes.strip() else "; notes cleared"


def _status_of(item: object) -> str:
    status = item.get("status") if isinstance(item, dict) else None
    if not isinstance(status, str):
        raise ToolError("each item is an object with `text` and `status`")
    return status
