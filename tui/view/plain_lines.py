"""Blocks and styled lines as lines of plain text, for line mode and editors."""

import math
import re
from collections.abc import Mapping, Sequence

from ebbtide.agent.events.session import Event
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.numbers import format_duration
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.spans import Line, line_text
from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    Failure,
    Notice,
    OlderMessages,
    ReasoningBlock,
    Retry,
    SessionView,
    SummaryBlock,
    TurnTotal,
    UserText,
)
from ebbtide.tui.view.call_titles import call_title
from ebbtide.tui.view.outcomes import call_diff, call_outcome, failure_lines
from ebbtide.tui.view.plan import plan_text
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneCompaction, receipt_title
from ebbtide.tui.view.reduce import apply_event
from ebbtide.tui.view.turn_total import interruption_text, total_sentence

_DRAWING_CHARS = re.compile("[─-▟]+")
"""Box-drawing characters, which a screen reader should not read aloud."""
_MARK_WORDS: Mapping[str, str] = {"☑ ": "done: ", "■ ": "in progress: ", "☐ ": "pending: "}
"""Words that replace the state marks of to-do items."""


def new_block_lines(event: Event) -> tuple[str, ...]:
    """Format what an event adds to a transcript, except calls and model text."""
    view = apply_event(SessionView(), event)
    blocks = (block for block in view.turn_blocks if not isinstance(block, AnswerText | Call))
    retry_lines = (_retry_sentence(view.retry),) if view.retry is not None else ()
    return (*retry_lines, *(line for block in blocks for line in block_lines(block)))


def _retry_sentence(retry: Retry) -> str:
    wait = f" in {format_duration(math.ceil(retry.delay))}" if retry.delay else ""
    return f"{sanitise_line(retry.reason).rstrip('.')}. Retrying{wait}, {retry.attempt_text}."


def block_lines(block: Block) -> tuple[str, ...]:
    """Format a transcript block as lines of plain text."""
    match block:
        case UserText(text=text):
            first_line, *other_lines = text_lines(text) or ("",)
            return (f"You: {first_line}", *other_lines)
        case AnswerText(text=text):
            return text_lines(text)
        case ReasoningBlock():
            return ()
        case Call() if role_of(block.name) == "propose_plan":
            return (f"Plan, {call_outcome(block, '') or block.status}:", *text_lines(plan_text(block)))
        case Call():
            return (call_line(block),)
        case Notice(text=text):
            first_line, *other_lines = text_lines(text) or ("",)
            return (f"Note: {first_line}", *other_lines)
        case TurnTotal():
            sentence = total_sentence(block)
            return tuple(filter(None, (interruption_text(block), f"Turn: {sentence}." if sentence else "")))
        case Failure(message=message):
            first_line, *other_lines = text_lines(message) or ("",)
            return (f"Error: {first_line}", *other_lines)
        case RunningCompaction() | Compaction() | UndoneCompaction():
            title = receipt_title(block)
            return (sanitise_line(title[:1].upper() + title[1:]).replace("→", "to"),)
        case OlderMessages(message_count=message_count, problem=problem):
            hint = sanitise_line(problem) or "`/print` prints them."
            return (f"{pluralize(message_count, 'earlier message')} before this: {hint}",)
        case SummaryBlock(text=text):
            return ("Summary of the earlier conversation:", *text_lines(text))


def call_line(call: Call) -> str:
    """Format a call and its outcome as one line."""
    outcome = call_outcome(call, call_diff(call) if call.status == "done" else "")
    is_status_known = call.status == "asking" or role_of(call.name) == "propose_plan"
    changed_text = f"changed {sanitise_line(', '.join(call.changed_files))}" if call.changed_files else ""
    phrases = (
        "" if outcome and is_status_known else call.status,
        *outcome.removeprefix("→ ").split("  "),
        changed_text,
    )
    reasons: Sequence[str] = ()
    if call.status == "failed":
        reasons = failure_lines(call)[-1:] if call.program else failure_lines(call)[:1]
    details = [
        ", ".join(dict.fromkeys(filter(None, phrases))),
        *(sanitise_line(line)[:300].rstrip(".") for line in reasons),
    ]
    return f"Tool {call_title(call.name, call.arguments)}: {': '.join(details)}."


def text_lines(text: str) -> tuple[str, ...]:
    """Split untrusted text into lines and remove control sequences."""
    return tuple(sanitise(text).expandtabs(4).rstrip().split("\n")) if text.strip() else ()


def plain_lines(lines: Sequence[Line]) -> tuple[str, ...]:
    """Convert styled lines to plain text: code in backticks, marks as words, no decoration."""
    return tuple(plain_line(line) for line in lines)


def plain_line(line: Line) -> str:
    text = line_text(line, code_delimiter="`")
    for mark, replacement in _MARK_WORDS.items():
        text = text.replace(mark, replacement)
    return _DRAWING_CHARS.sub("", text).rstrip()
