"""The model's own list and notes, as its `todo` calls left them. Pure: messages in, values out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.messages import Assistant, Message, ToolCall, User


@dataclass(frozen=True, slots=True)
class TodoItem:
    text: str
    status: str
    """`pending`, `doing` or `done`."""


def last_todos(messages: Sequence[Message]) -> tuple[TodoItem, ...] | None:
    """The list that the last successful `todo` call set, or None when the messages hold no such call."""
    return next((_items(call) for call in _kept_calls(messages)), None)


def last_notes(messages: Sequence[Message]) -> str | None:
    """The notes of the last successful `todo` call that brought some, or None when none did."""
    found = (call.arguments["notes"] for call in _kept_calls(messages) if "notes" in call.arguments)
    return next((str(notes).strip() for notes in found), None)


def open_items(items: Sequence[TodoItem]) -> str:
    """What is not done yet, a line each."""
    return "\n".join(f"- [{item.status}] {item.text}" for item in items if item.status != "done")


def _kept_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    """The successful `todo` calls, the newest first."""
    for index in range(len(messages) - 1, 0, -1):
        reply, outputs = messages[index - 1], messages[index]
        if not (isinstance(reply, Assistant) and isinstance(outputs, User)):
            continue
        kept = {output.call_id for output in outputs.outputs if output.status == "done"}
        yield from (call for call in reversed(reply.calls) if call.name == "todo" and call.id in kept)


def _items(call: ToolCall) -> tuple[TodoItem, ...]:
    items = call.arguments.get("items")
    if not isinstance(items, list):
        return ()
    return tuple(
        TodoItem(str(item.get("text", "")), str(item.get("status", "pending")))
        for item in items
        if isinstance(item, dict)
    )
