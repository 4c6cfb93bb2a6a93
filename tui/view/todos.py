"""The model's to-do list. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code, strip_backticks
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, RowChosen

if TYPE_CHECKING:  # a type only: messages are loaded behind the first paint
    from ebbtide.agent.context.control_calls import TodoItem

NOW = "■"
"""The mark of the item in progress."""
_MARKS: dict[str, tuple[str, TextStyle]] = {"done": ("☑", "good"), "doing": (NOW, "accent"), "pending": ("☐", "dim")}


def todos_in(blocks: Sequence[Block]) -> "tuple[TodoItem, ...] | None":
    """The list of the last todo call, or None."""
    for block in reversed(blocks):
        if isinstance(block, Call) and block.name == "todo" and block.status == "done":
            return items_of(block)
    return None


def _item(item: object) -> "TodoItem":
    from ebbtide.agent.context.control_calls import TodoItem  # noqa: PLC0415  # deferred: see above

    known = item if isinstance(item, dict) else {}
    return TodoItem(str(known.get("text", "")), str(known.get("status", "pending")))


def items_of(call: Call) -> "tuple[TodoItem, ...]":
    """The items of a todo call; tolerates malformed arguments."""
    items = call.arguments.get("items")
    return tuple(_item(item) for item in items) if isinstance(items, list | tuple) else ()


def short_list(items: "Sequence[TodoItem]", most: int) -> tuple[Line, ...]:
    """One line per item, at most `most` around the current one; the rest are counted."""
    if len(items) <= most:
        return todo_lines(items)
    now = next((index for index, item in enumerate(items) if item.status != "done"), 0)
    first = max(0, min(now - most // 3, len(items) - most))
    last = first + most
    above: tuple[Line, ...] = (((f"… {first:,} before these", "dim"),),) if first else ()
    below: tuple[Line, ...] = (((f"… {len(items) - last:,} more", "dim"),),) if last < len(items) else ()
    return (*above, *todo_lines(items[first:last]), *below)


def done_of(items: "Sequence[TodoItem]") -> str:
    """`3 of 7 done`; empty for an empty list."""
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done" if items else ""


def summary_of(items: "Sequence[TodoItem]") -> str:
    """`2 of 7 done · fix the parser`; empty if all items are done."""
    left = [item for item in items if item.status != "done"]
    if not left:
        return ""
    now = next((item for item in left if item.status == "doing"), left[0])
    return f"{done_of(items)} · {strip_backticks(sanitised_line(now.text))}"


def todos_panel(items: "Sequence[TodoItem]") -> Panel:
    """The to-do panel."""
    head: Line = (("To do  ", "strong"), (done_of(items) or "nothing", "dim"))
    said = "\n".join(f"{sanitised_line(item.status)}: {sanitised_line(item.text)}" for item in items)
    close = PanelAction(("f3",), do=_close, needs_row=False)
    return Panel(
        "todos", (head,), (), "Up, Down   Esc closes", plain_head=said, actions=(close,), about=todo_lines(items),
        search="", reads=True,
    )  # fmt: skip


async def _close(row: PanelRow, _: str) -> RowChosen:
    return RowChosen("")


def todo_lines(items: "Sequence[TodoItem]") -> tuple[Line, ...]:
    """A line for each item, with a mark for its status."""
    return tuple(_line(item) for item in items)


def _line(item: "TodoItem") -> Line:
    mark, ink = _MARKS.get(item.status, ("·", "dim"))
    text = sanitised_line(item.text)
    words: TextStyle = "dim" if item.status == "done" else "strong" if item.status == "doing" else "text"
    return (
        (f"{mark} ", ink),
        *(parse_inline_code(text, words) if item.status != "done" else ((strip_backticks(text), words),)),
    )
