"""The model's own list, as its `todo` calls left it. Pure: messages in, items out."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.messages import Assistant, Message, ToolCall, User


@dataclass(frozen=True, slots=True)
class TodoItem:
    text: str
    status: str
    """`pending`, `doing` or `done`."""


def last_todos(messages: Sequence[Message]) -> tuple[TodoItem, ...] | None:
    """The list that the last successful `todo` call set, or None when the messages hold no such call."""
    for index in range(len(messages) - 1, 0, -1):
        reply, outputs = messages[index - 1], messages[index]
        if not (isinstance(reply, Assistant) and isinstance(outputs, User)):
            continue
        kept = {output.call_id for output in outputs.outputs if output.status == "done"}
        for call in reversed(reply.calls):
            if call.name == "todo" and call.id in kept:
                return _items(call)
    return None


def _items(call: ToolCall) -> tuple[TodoItem, ...]:
    items = call.arguments.get("items")
    if not isinstance(items, list):
        return ()
    return tuple(
        TodoItem(str(item.get("text", "")), str(item.get("status", "pending")))
        for item in items
        if isinstance(item, dict)
    )
