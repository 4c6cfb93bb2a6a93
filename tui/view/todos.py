"""The model's to-do list."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code, strip_backticks
from ebbtide.tui.view.blocks import Block, Call
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, RowChosen, build_report_panel

if TYPE_CHECKING:  # the message module loads only after the first paint
    from ebbtide.agent.control_calls import TodoItem

IN_PROGRESS_MARK = "■"
"""The mark of the item in progress."""
_MARKS: dict[str, tuple[str, TextStyle]] = {
    "done": ("☑", "good"),
    "doing": (IN_PROGRESS_MARK, "accent"),
    "pending": ("☐", "dim"),
}


def todos_from_blocks(blocks: Sequence[Block]) -> "tuple[TodoItem, ...] | None":
    """Get the list from the last to-do call; None if there is none."""
    for block in reversed(blocks):
        if isinstance(block, Call) and role_of(block.name) == "list_todos" and block.status == "done":
            return todo_items(block)
    return None


def _todo_item(item: object) -> "TodoItem":
    from ebbtide.agent.control_calls import TodoItem  # noqa: PLC0415  # deferred: see above

    fields = item if isinstance(item, dict) else {}
    return TodoItem(str(fields.get("text", "")), str(fields.get("status", "pending")))


def todo_items(call: Call) -> "tuple[TodoItem, ...]":
    """Parse the items of a to-do call. Malformed arguments are tolerated."""
    items = call.arguments.get("items")
    return tuple(_todo_item(item) for item in items) if isinstance(items, list | tuple) else ()


def todo_lines_around_current(items: "Sequence[TodoItem]", max_items: int) -> tuple[Line, ...]:
    """Format one line per item. If there are more than `max_items`, only those around the current one are shown, with
    the number of items before and after them."""
    if len(items) <= max_items:
        return todo_lines(items)
    current_index = next((index for index, item in enumerate(items) if item.status != "done"), 0)
    first_index = max(0, min(current_index - max_items // 3, len(items) - max_items))
    end = first_index + max_items
    earlier_line: tuple[Line, ...] = (((f"… {first_index:,} earlier", "dim"),),) if first_index else ()
    later_line: tuple[Line, ...] = (((f"… {len(items) - end:,} more", "dim"),),) if end < len(items) else ()
    return (*earlier_line, *todo_lines(items[first_index:end]), *later_line)


def format_progress(items: "Sequence[TodoItem]") -> str:
    """Format the progress as `3 of 7 done`; empty if there are no items."""
    return f"{sum(item.status == 'done' for item in items)} of {len(items)} done" if items else ""


def format_summary(items: "Sequence[TodoItem]") -> str:
    """Format the progress and the current item as `2 of 7 done · fix the parser`; empty if everything is done."""
    unfinished = [item for item in items if item.status != "done"]
    if not unfinished:
        return ""
    current_item = next((item for item in unfinished if item.status == "doing"), unfinished[0])
    return f"{format_progress(items)} · {strip_backticks(sanitise_line(current_item.text))}"


def build_todos_panel(items: "Sequence[TodoItem]") -> Panel:
    """Return the to-do panel."""
    heading: Line = (("To do  ", "strong"), (format_progress(items) or "empty", "dim"))
    close = PanelAction(("f3",), run=_close, needs_row=False)
    return replace(build_report_panel("todos", heading, todo_lines(items)), actions=(close,))


async def _close(row: PanelRow, _: str) -> RowChosen:
    return RowChosen("")


def todo_lines(items: "Sequence[TodoItem]") -> tuple[Line, ...]:
    """Format each item as a line, with a mark for its status."""
    return tuple(_todo_line(item) for item in items)


def _todo_line(item: "TodoItem") -> Line:
    mark, style = _MARKS.get(item.status, ("·", "dim"))
    text = sanitise_line(item.text)
    text_style: TextStyle = "dim" if item.status == "done" else "strong" if item.status == "doing" else "text"
    return (
        (f"{mark} ", style),
        *(parse_inline_code(text, text_style) if item.status != "done" else ((strip_backticks(text), text_style),)),
    )
