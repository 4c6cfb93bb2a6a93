"""The model's list of what is to be done, as it is shown. Pure: blocks in, lines out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code, strip_backticks
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, RowChosen

if TYPE_CHECKING:  # a type only: messages are loaded behind the first paint
    from ebbtide.agent.context.control_calls import TodoItem

NOW = "■"
"""What stands before the item that is being done."""
_MARKS: dict[str, tuple[str, TextStyle]] = {"done": ("☑", "good"), "doing": (NOW, "accent"), "pending": ("☐", "dim")}


def todos_in(blocks: Sequence[Block]) -> "tuple[TodoItem, ...] | None":
    """The list as the last call that kept one left it; None where no call did."""
    for block in reversed(blocks):
        if isinstance(block, Call) and block.name == "todo" and block.status == "done":
            return items_of(block)
    return None


def _item(item: object) -> "TodoItem":
    from ebbtide.agent.context.control_calls import TodoItem  # noqa: PLC0415  # deferred: see above

    known = item if isinstance(item, dict) else {}
    return TodoItem(str(known.get("text", "")), str(known.get("status", "pending")))


def items_of(call: Call) -> "tuple[TodoItem, ...]":
    """The list that a call keeps, whatever the model wrote there."""
    items = call.arguments.get("items")
    return tuple(_item(item) for item in items) if isinstance(items, list | tuple) else ()


def short_list(items: "Sequence[TodoItem]", most: int) -> tuple[Line, ...]:
    """A line for each item, or for so many of them around the one that is being done; what is left out is counted."""
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
    """`2 of 7 done · mend the parser`; empty where nothing is left to do."""
    left = [item for item in items if item.status != "done"]
    if not left:
        return ""
    now = next((item for item in left if item.status == "doing"), left[0])
    return f"{done_of(items)} · {strip_backticks(sanitised_line(now.text))}"


def todos_panel(items: "Sequence[TodoItem]") -> Panel:
    """The list, to look at."""
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
    """A line for each item, marked by how it stands."""
    return tuple(_line(item) for item in items)


def _line(item: "TodoItem") -> Line:
    mark, ink = _MARKS.get(item.status, ("·", "dim"))
    text = sanitised_line(item.text)
    words: TextStyle = "dim" if item.status == "done" else "strong" if item.status == "doing" else "text"
    return (
        (f"{mark} ", ink),
        *(parse_inline_code(text, words) if item.status != "done" else ((strip_backticks(text), words),)),
    )
