"""The model's own list and notes, as its `todo` calls left them. Pure: messages in, values out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.messages import Assistant, Message, ToolCall


@dataclass(frozen=True, slots=True)
class TodoItem:
    text: str
    status: str
    """`pending`, `doing` or `done`."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The list and the notes as `todo` calls have left them; None where no call has set them."""

    todos: tuple[TodoItem, ...] | None = None
    notes: str | None = None
    asked: tuple[ToolCall, ...] = ()
    """Calls that are not answered yet."""

    def plus(self, message: Message) -> "Kept":
        """This with what a message says of it. Only a successful call counts."""
        if isinstance(message, Assistant):
            asked = tuple(call for call in message.calls if call.name == "todo")
            return replace(self, asked=asked) if asked or self.asked else self
        if not self.asked:
            return self
        done = {output.call_id for output in message.outputs if output.status == "done"}
        todos, notes = self.todos, self.notes
        for call in self.asked:
            if call.id in done:
                todos = _items(call)
                notes = str(call.arguments["notes"]).strip() if "notes" in call.arguments else notes
        return Kept(todos, notes)


def kept_in(messages: Iterable[Message]) -> Kept:
    """The list and the notes as the calls in the messages have left them."""
    kept = Kept()
    for message in messages:
        kept = kept.plus(message)
    return kept


def last_todos(messages: Iterable[Message]) -> tuple[TodoItem, ...] | None:
    """The list that the last successful `todo` call set, or None when the messages hold no such call."""
    return kept_in(messages).todos


def last_notes(messages: Iterable[Message]) -> str | None:
    """The notes of the last successful `todo` call that brought some, or None when none did."""
    return kept_in(messages).notes


def open_items(items: Sequence[TodoItem]) -> str:
    """What is not done yet, a line each."""
    return "\n".join(f"- [{item.status}] {item.text}" for item in items if item.status != "done")


def _items(call: ToolCall) -> tuple[TodoItem, ...]:
    items = call.arguments.get("items")
    if not isinstance(items, list):
        return ()
    return tuple(
        TodoItem(str(item.get("text", "")), str(item.get("status", "pending")))
        for item in items
        if isinstance(item, dict)
    )
