"""The text of blocks: their source for the clipboard, and everything in them for searches."""

from collections.abc import Iterable

from ebbtide.tools.tool_traits import command_argument, role_of
from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import argument_lines, call_title
from ebbtide.tui.view.outcomes import call_diff
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneCompaction, receipt_details, receipt_title
from ebbtide.tui.view.todos import todo_items
from ebbtide.tui.view.turn_total import total_text


def clipboard_text(block: Block) -> str:
    """Get a block's source for the clipboard: Markdown, a command with its output, or an output."""
    match block:
        case Call():
            command = command_argument(block.arguments)
            title = f"$ {command}" if command else " ".join(call_title(block.name, block.arguments).split())
            return "\n".join(filter(None, (title, block.text or block.output_tail)))
        case Compaction():
            return "\n".join(text for _, text in receipt_details(block))
        case RunningCompaction() | UndoneCompaction():
            return ""
        case _:
            return _simple_block_text(block)


def last_answer(blocks: Iterable[Block]) -> str:
    """Get the newest answer as the model wrote it; empty if there is none."""
    answers = [block.text for block in blocks if isinstance(block, AnswerText)]
    return answers[-1] if answers else ""


def block_text(block: Block) -> str:
    """Get all text of a block in display order, including collapsed parts."""
    match block:
        case Call():
            diff = call_diff(block)
            argument_or_todo_lines = (
                [item.text for item in todo_items(block)]
                if role_of(block.name) == "list_todos"
                else argument_lines(block.arguments)
            )
            details = command_argument(block.arguments) or diff or "\n".join(argument_or_todo_lines)
            output = "" if diff and block.status == "done" else block.text or block.output_tail
            return "\n".join((call_title(block.name, block.arguments), details, output, *block.changed_files))
        case Compaction():
            return "\n".join((receipt_title(block), *(text for _, text in receipt_details(block))))
        case RunningCompaction() | UndoneCompaction():
            return receipt_title(block)
        case _:
            return _simple_block_text(block)


def _simple_block_text(
    block: UserText | AnswerText | ReasoningBlock | SummaryBlock | Notice | TurnTotal | Failure | OlderMessages,
) -> str:
    """Get the text of a block without collapsed parts."""
    match block:
        case TurnTotal():
            return total_text(block)
        case Failure(message=message):
            return message
        case OlderMessages():
            return ""
        case UserText() | AnswerText() | ReasoningBlock() | SummaryBlock() | Notice():
            return block.text
