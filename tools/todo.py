"""The `todo` tool: the model's own list. The list is in the call's arguments; front ends read it from there."""

from collections import Counter

from tools.arguments import items
from tools.base import Arguments, Effect, Result, ToolError, Workspace
from tools.described import description_beside
from tools.schema import object_of

_STATUSES = ("pending", "doing", "done")


class Todo:
    name = "todo"
    description = description_beside(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "items": {
                "type": "array",
                "items": object_of(
                    {"text": {"type": "string"}, "status": {"enum": list(_STATUSES)}}, required=("text", "status")
                ),
            }
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
        return Result(f"list kept: {told}" if told else "list kept: it is empty")


def _status_of(item: object) -> str:
    status = item.get("status") if isinstance(item, dict) else None
    if not isinstance(status, str):
        raise ToolError("each item is an object with `text` and `status`")
    return status
