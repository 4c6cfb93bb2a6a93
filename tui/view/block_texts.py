"""Blocks as text: their source for the clipboard, and everything they show for search."""

from collections.abc import Iterable

from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    Retry,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import argument_lines, command_of, title_of
from ebbtide.tui.view.outcomes import diff_of
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt, details_of
from ebbtide.tui.view.receipts import title_of as title_of_receipt
from ebbtide.tui.view.todos import items_of
from ebbtide.tui.view.turn_total import total_text


def source_of(block: Block) -> str:
    """The source of a block: markdown, a command with its output, or an output."""
    match block:
        case Call():
            command = command_of(block.arguments)
            head = f"$ {command}" if command else " ".join(title_of(block.name, block.arguments).split())
            return "\n".join(filter(None, (head, block.text or block.tail)))
        case Compaction():
            return "\n".join(text for _, text in details_of(block))
        case RunningCompaction() | UndoneReceipt():
            return ""
        case _:
            return _words_of(block)


def last_answer(blocks: Iterable[Block]) -> str:
    """The newest answer as the model wrote it; empty if there is none."""
    answers = [block.text for block in blocks if isinstance(block, AnswerText)]
    return answers[-1] if answers else ""


def text_of(block: Block) -> str:
    """All text of a block, including collapsed parts, in the order shown."""
    match block:
        case Call():
            diff = diff_of(block)
            listed = (
                [item.text for item in items_of(block)] if block.name == "todo" else argument_lines(block.arguments)
            )
            what = command_of(block.arguments) or diff or "\n".join(listed)
            said = "" if diff and block.status == "done" else block.text or block.tail
            return "\n".join((title_of(block.name, block.arguments), what, said, *block.changed))
        case Compaction():
            return "\n".join((title_of_receipt(block), *(text for _, text in details_of(block))))
        case RunningCompaction() | UndoneReceipt():
            return title_of_receipt(block)
        case _:
            return _words_of(block)


def _words_of(
    block: UserText | AnswerText | ReasoningBlock | SummaryBlock | Notice | TurnTotal | Failure | Retry | OlderMessages,
) -> str:
    """The text of a block that has no collapsed parts."""
    match block:
        case TurnTotal():
            return total_text(block)
        case Failure(message=message):
            return message
        case Retry(reason=reason):
            return reason
        case OlderMessages():
            return ""
        case UserText() | AnswerText() | ReasoningBlock() | SummaryBlock() | Notice():
            return block.text
