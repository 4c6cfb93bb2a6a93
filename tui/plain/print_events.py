"""Formats the events of a session as sentences for line mode."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.agent.events.permissions import CallDenied, CallEdited, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.agent.events.session import (
    CallsRead,
    Event,
    HookStatus,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    WindowLearned,
)
from ebbtide.agent.events.view import CompactionStarted, FilesChanged, NothingCompacted
from ebbtide.agent.messages import USER_CALL_PREFIX
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line, line_text
from ebbtide.tui.view.block_groups import LookupGroup, is_lookup, lookup_summary
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
from ebbtide.tui.view.call_titles import call_title as title_of_call
from ebbtide.tui.view.outcomes import call_diff, call_outcome, failure_lines
from ebbtide.tui.view.plan import plan_text as plan_of
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt, receipt_title
from ebbtide.tui.view.reduce import advance, finished_call
from ebbtide.tui.view.turn_total import total_sentence

MIN_SENTENCE_CHARS = 40
"""Minimum number of characters in a sentence that is printed by itself."""
MAX_PENDING_CHARS = 1_000
"""Maximum number of characters held back while waiting for the end of a sentence."""

_SENTENCE_END = re.compile(r"[.!?…:;][\"'”’)\]*_`]*\s+|[。！？]")
_FENCE = re.compile(r"\s*(```|~~~)")
_SPACE = re.compile(r"\s")
_DRAWING_CHARS = re.compile("[─-▟]+")
"""Box-drawing characters, which a screen reader should not read aloud."""
_MARK_WORDS: Mapping[str, str] = {"☑ ": "done: ", "■ ": "in progress: ", "☐ ": "pending: "}
"""Words for the marks that show the state of what follows."""


@dataclass(frozen=True, slots=True)
class PrintState:
    """The unprinted text of a turn, and the state that later lines depend on."""

    pending: str = ""
    """The incomplete sentence at the end of the answer."""
    in_code: bool = False
    """Whether the text is inside a code fence, where only line breaks end a piece."""
    has_turn_text: bool = False
    """Whether the model has written text in the current turn."""
    has_step_text: bool = False
    """Whether the model has written text in the current step."""
    calls: Mapping[str, Call] = field(default_factory=dict)
    """Calls by id."""
    lookups: tuple[tuple[Call, str], ...] = ()
    """Consecutive finished lookups with their lines, to be printed as one line."""


_FLUSHING_EVENTS = (TurnStarted, TurnFinished, TurnFailed, PermissionAsked, QuestionAsked, PlanSubmitted)
"""Events after which other code prints text, so that merged lookups must be printed first."""


def event_lines(before: PrintState, event: Event, *, is_full: bool = False) -> tuple[PrintState, tuple[str, ...]]:
    """Return the new state and the lines that an event completes. Consecutive lookups are printed as one line before
    the next other event or, if `is_full`, one by one."""
    after, lines = _unmerged_event_lines(before, event)
    if isinstance(event, ToolFinished) and event.status == "done" and lines and not is_full:
        call = before.calls.get(event.call_id)
        if call is not None and is_lookup(call):
            return replace(after, lookups=(*before.lookups, (call, lines[-1]))), lines[:-1]
    if not before.lookups or not (lines or isinstance(event, _FLUSHING_EVENTS)):
        return after, lines
    return replace(after, lookups=()), (_lookup_line(before.lookups), *lines)


def _lookup_line(lookups: Sequence[tuple[Call, str]]) -> str:
    if len(lookups) == 1:
        return lookups[0][1]
    summary, which = lookup_summary(LookupGroup(tuple(call for call, _ in lookups)))
    return f"{summary}: {sanitised_line(which)}."


def _unmerged_event_lines(before: PrintState, event: Event) -> tuple[PrintState, tuple[str, ...]]:
    match event:
        case TurnStarted():
            return PrintState(), ()
        case StepStarted():
            after, lines = _flush_pending(before)
            return replace(after, has_step_text=False), lines
        case TextDelta(text=text):
            return _add_text(before, text)
        case ToolStarted() | PermissionAsked() | CallEdited():
            known = before.calls.get(event.call_id, Call(event.call_id, event.name))
            edited = isinstance(event, CallEdited) or known.is_edited
            call = replace(known, name=event.name, arguments=event.arguments, is_edited=edited)
            return _flush_pending(replace(before, calls={**before.calls, call.call_id: call}))
        case CallDenied(name=name, arguments=arguments):
            return _flush_pending(before, f"Tool {title_of_call(name, arguments)}: denied.")
        case ToolFinished(status="denied"):
            return before, ()  # already printed when the call was denied
        case ToolFinished():
            printed = text_lines(event.text) if event.call_id.startswith(USER_CALL_PREFIX) else ()
            begun = before.calls.get(event.call_id, Call(event.call_id, event.name))
            return _flush_pending(before, *printed, _call_line(finished_call(begun, event)))
        case CallsRead():
            return replace(before, pending="", in_code=False), ("The model's text was a tool call.",)
        case RetryScheduled() | WindowLearned():
            void = (
                ("The model's text since your message or the last tool call is discarded.",)
                if before.has_step_text
                else ()
            )
            return replace(before, pending="", in_code=False, has_step_text=False), (*new_block_lines(event), *void)
        case HookStatus(text=text) if text:
            return _flush_pending(before, sanitised_line(text))
        case FilesChanged():
            return before, ()  # printed at the end of the turn
        case CompactionStarted(used=used):
            return _flush_pending(before, f"Compacting {used:,} tokens.")
        case NothingCompacted():
            return _flush_pending(before, "Nothing was compacted.")
        case TurnFinished(text=text) if text and not before.has_turn_text:
            return _flush_pending(before, *text_lines(text), *new_block_lines(event))
        case _:
            return _flush_pending(before, *new_block_lines(event))


def new_block_lines(event: Event) -> tuple[str, ...]:
    """Return what an event adds to a transcript, as lines, except calls and model text."""
    blocks = advance(SessionView(), event).turn_blocks
    return tuple(line for block in blocks if not isinstance(block, AnswerText | Call) for line in block_lines(block))


def block_lines(block: Block) -> tuple[str, ...]:
    """Return a block of a transcript, as lines in words."""
    match block:
        case UserText(text=text):
            first, *rest = text_lines(text) or ("",)
            return (f"You: {first}", *rest)
        case AnswerText(text=text):
            return text_lines(text)
        case ReasoningBlock():
            return ()
        case Call() if role_of(block.name) == "propose_plan":
            return (f"Plan, {call_outcome(block, '') or block.status}:", *text_lines(plan_of(block)))
        case Call():
            return (_call_line(block),)
        case Retry(delay=delay, reason=reason):
            which = f"{block.attempt_text}, in {delay:.0f} s"
            return (f"The request failed: {sanitised_line(reason).rstrip('.')}. Retrying: {which}.",)
        case Notice(text=text):
            first, *rest = text_lines(text) or ("",)
            return (f"Note: {first}", *rest)
        case TurnTotal():
            return (f"Turn: {total_sentence(block)}.",)
        case Failure(message=message):
            first, *rest = text_lines(message) or ("",)
            return (f"Error: {first}", *rest)
        case RunningCompaction() | Compaction() | UndoneReceipt():
            title = receipt_title(block)
            return (sanitised_line(title[:1].upper() + title[1:]).replace("→", "to"),)
        case OlderMessages(messages=messages, problem=problem):
            how = sanitised_line(problem) or "`/print` prints them."
            return (f"{pluralize(messages, 'earlier message')} before this: {how}",)
        case SummaryBlock(text=text):
            return ("Summary of the earlier conversation:", *text_lines(text))


def _call_line(call: Call) -> str:
    """Return a line with a call and its outcome."""
    how = call_outcome(call, call_diff(call) if call.status == "done" else "")
    is_status_known = call.status == "asking" or role_of(call.name) == "propose_plan"
    changed = f"changed {sanitised_line(', '.join(call.changed_files))}" if call.changed_files else ""
    parts = ("" if how and is_status_known else call.status, *how.removeprefix("→ ").split("  "), changed)
    why: Sequence[str] = ()
    if call.status == "failed":
        why = failure_lines(call)[-1:] if call.program else failure_lines(call)[:1]
    details = [", ".join(dict.fromkeys(filter(None, parts))), *(sanitised_line(line)[:300].rstrip(".") for line in why)]
    return f"Tool {title_of_call(call.name, call.arguments)}: {': '.join(details)}."


def text_lines(text: str) -> tuple[str, ...]:
    """Return untrusted text as lines, without control sequences."""
    return tuple(sanitised(text).expandtabs(4).rstrip().split("\n")) if text.strip() else ()


def plain_lines(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return styled lines as plain text: code in backticks, marks in words, and no decoration."""
    return tuple(plain_line(line) for line in lines)


def plain_line(line: Line) -> str:
    text = line_text(line, code="`")
    for mark, words in _MARK_WORDS.items():
        text = text.replace(mark, words)
    return _DRAWING_CHARS.sub("", text).rstrip()


def pending_lines(before: PrintState) -> tuple[str, ...]:
    """Return the lines that are not printed yet."""
    return text_lines(before.pending)


def _flush_pending(before: PrintState, *lines: str) -> tuple[PrintState, tuple[str, ...]]:
    """Return the state without unprinted text, and the lines: first that text, then `lines`."""
    return replace(before, pending="", in_code=False), (*pending_lines(before), *lines)


def _add_text(before: PrintState, text: str) -> tuple[PrintState, tuple[str, ...]]:
    """Return the sentences that a piece of an answer completes. Only the new piece is scanned."""
    pending, scanned = before.pending + text, max(0, len(before.pending) - 8)
    after = replace(before, pending=pending, has_turn_text=True, has_step_text=True)
    if not _SPACE.search(text) and not _SENTENCE_END.search(text) and len(pending) < MAX_PENDING_CHARS:
        return after, ()
    lines: list[str] = []
    in_code, start = before.in_code, 0
    while True:
        end = _sentence_end(pending, start, max(start, scanned), in_code)
        if end is None:
            break
        piece = pending[start:end]
        if piece.endswith("\n") and _FENCE.match(piece):
            in_code = not in_code
        lines += sanitised(piece).expandtabs(4).rstrip().split("\n")
        start = end
    return replace(after, pending=pending[start:], in_code=in_code), tuple(lines)


def _sentence_end(text: str, start: int, scanned: int, in_code: bool) -> int | None:
    """Return the end of the line or sentence that begins at `start`; None if it is incomplete."""
    limit = min(len(text), start + MAX_PENDING_CHARS)
    newline = text.find("\n", scanned, limit)
    if not in_code and not _FENCE.match(text, start):
        for found in _SENTENCE_END.finditer(text, scanned, newline if newline >= 0 else limit):
            if found.end() - start >= MIN_SENTENCE_CHARS:
                return found.end()
    if newline >= 0:
        return newline + 1
    if len(text) - start >= MAX_PENDING_CHARS:
        blank = text.rfind(" ", start, limit)
        return blank + 1 if blank > start else limit
    return None
