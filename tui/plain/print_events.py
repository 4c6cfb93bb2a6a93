"""Events of a session as sentences for line mode, with outcomes in words."""

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
from ebbtide.agent.messages import BY_USER
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.spans import Line
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
from ebbtide.tui.view.call_titles import title_of as title_of_call
from ebbtide.tui.view.outcomes import count_of, why_failed
from ebbtide.tui.view.outcomes import outcome_of as outcome_of_call
from ebbtide.tui.view.plan import text_of as plan_of
from ebbtide.tui.view.receipts import Compaction, RunningCompaction, UndoneReceipt, title_of
from ebbtide.tui.view.reduce import advance
from ebbtide.tui.view.turn_total import total_words

SHORTEST = 40
"""Minimum characters of a sentence that is printed by itself."""
MAX_PENDING_CHARS = 1_000
"""Maximum characters kept while waiting for the end of a sentence."""

_SENTENCE = re.compile(r"[.!?…:;][\"'”’)\]*_`]*\s+|[。！？]")
_FENCE = re.compile(r"\s*(```|~~~)")
_SPACE = re.compile(r"\s")
_DRAWING_CHARS = re.compile("[─-▟]+")
"""Box-drawing characters, which mean nothing when read aloud."""


@dataclass(frozen=True, slots=True)
class Printing:
    """The unprinted text of a turn, and what later lines depend on."""

    pending: str = ""
    """The incomplete sentence at the end of the answer."""
    in_code: bool = False
    """Whether inside a code fence, where only lines end."""
    has_turn_text: bool = False
    """Whether the model has written text in this turn."""
    has_step_text: bool = False
    """Whether it has written text in this step."""
    calls: Mapping[str, Call] = field(default_factory=dict)
    """Calls by id."""
    lookups: tuple[tuple[Call, str], ...] = ()
    """Consecutive finished lookups with their lines, printed as one."""


_ANNOUNCED_EVENTS = (TurnStarted, TurnFinished, TurnFailed, PermissionAsked, QuestionAsked, PlanSubmitted)
"""Events after which text that is not their own line follows."""


def lines_of(before: Printing, event: Event, *, is_full: bool = False) -> tuple[Printing, tuple[str, ...]]:
    """The lines completed by an event. Lookups are printed together when something else follows, or one by one if
    `is_full`."""
    after, lines = _lines_of(before, event)
    if isinstance(event, ToolFinished) and event.status == "done" and lines and not is_full:
        call = before.calls.get(event.call_id)
        if call is not None and is_lookup(call):
            return replace(after, lookups=(*before.lookups, (call, lines[-1]))), lines[:-1]
    if not before.lookups or not (lines or isinstance(event, _ANNOUNCED_EVENTS)):
        return after, lines
    return replace(after, lookups=()), (_looked_up(before.lookups), *lines)


def _looked_up(lookups: Sequence[tuple[Call, str]]) -> str:
    if len(lookups) == 1:
        return lookups[0][1]
    said, which = lookup_summary(LookupGroup(tuple(call for call, _ in lookups)))
    return f"{said}: {sanitised_line(which)}."


def _lines_of(before: Printing, event: Event) -> tuple[Printing, tuple[str, ...]]:
    match event:
        case TurnStarted():
            return Printing(), ()
        case StepStarted():
            after, lines = _flush_pending(before)
            return replace(after, has_step_text=False), lines
        case TextDelta(text=text):
            return _add_text(before, text)
        case (
            ToolStarted(call_id=id, name=name, arguments=arguments)
            | PermissionAsked(call_id=id, name=name, arguments=arguments)
            | CallEdited(call_id=id, name=name, arguments=arguments)
        ):
            return _flush_pending(replace(before, calls={**before.calls, id: Call(id, name, arguments)}))
        case CallDenied(call_id=id, name=name, arguments=arguments):
            return _flush_pending(before, f"Tool {title_of_call(name, arguments)}: denied.")
        case ToolFinished(status="denied"):
            return before, ()  # said already: the call was denied
        case ToolFinished():
            printed = lines_of_text(event.text) if event.call_id.startswith(BY_USER) else ()
            return _flush_pending(
                before,
                *printed,
                f"Tool {_title(before, event)}: {outcome_of(event)}.",
            )
        case CallsRead():
            return replace(before, pending="", in_code=False), ("What the model wrote there is a call.",)
        case RetryScheduled() | WindowLearned():
            void = (
                ("What the model said since your message or the last tool is discarded.",)
                if before.has_step_text
                else ()
            )
            return replace(before, pending="", in_code=False, has_step_text=False), (*lines_of_new(event), *void)
        case HookStatus(text=text) if text:
            return _flush_pending(before, sanitised_line(text))
        case FilesChanged():
            return before, ()  # said with the turn's end
        case CompactionStarted(used=used):
            return _flush_pending(before, f"Compacting {used:,} tokens.")
        case NothingCompacted():
            return _flush_pending(before, "Nothing was compacted.")
        case TurnFinished(text=text) if text and not before.has_turn_text:
            return _flush_pending(before, *lines_of_text(text), *lines_of_new(event))
        case _:
            return _flush_pending(before, *lines_of_new(event))


def _title(before: Printing, event: ToolFinished) -> str:
    call = before.calls.get(event.call_id)
    return title_of_call(call.name, call.arguments) if call is not None else sanitised_line(event.name)


def lines_of_new(event: Event) -> tuple[str, ...]:
    """What an event adds to a transcript, in words, except calls and model text."""
    blocks = advance(SessionView(), event).turn
    return tuple(line for block in blocks if not isinstance(block, AnswerText | Call) for line in words_of(block))


def words_of(block: Block) -> tuple[str, ...]:
    """A block of a transcript, in words."""
    match block:
        case UserText(text=text):
            first, *rest = lines_of_text(text) or ("",)
            return (f"You: {first}", *rest)
        case AnswerText(text=text):
            return lines_of_text(text)
        case ReasoningBlock():
            return ()
        case Call(name="submit_plan"):
            return (f"Plan, {outcome_of_call(block, '') or block.status}:", *lines_of_text(plan_of(block)))
        case Call():
            return (f"Tool {title_of_call(block.name, block.arguments)}: {block.status}.",)
        case Retry(delay=delay, reason=reason):
            which = f"{block.which}, in {delay:.0f} s"
            return (f"The request failed: {sanitised_line(reason).rstrip('.')}. It is sent again: {which}.",)
        case Notice(text=text):
            first, *rest = lines_of_text(text) or ("",)
            return (f"Note: {first}", *rest)
        case TurnTotal():
            return (f"Turn: {total_words(block)}.",)
        case Failure(message=message):
            first, *rest = lines_of_text(message) or ("",)
            return (f"Error: {first}", *rest)
        case RunningCompaction() | Compaction() | UndoneReceipt():
            title = title_of(block)
            return (sanitised_line(title[:1].upper() + title[1:]).replace("→", "to"),)
        case OlderMessages(messages=messages, problem=problem):
            how = sanitised_line(problem) or "`/print` prints them, too."
            return (f"{pluralize(messages, 'earlier message')} before this: {how}",)
        case SummaryBlock(text=text):
            return ("Summary of what was said before:", *lines_of_text(text))


def outcome_of(event: ToolFinished) -> str:
    """How a call ended, in words."""
    changed = f", changed {sanitised_line(', '.join(event.changed))}" if event.changed else ""
    match event.status:
        case "done" if event.name == "submit_plan":
            return "accepted"
        case "done":
            problems = event.problems.count if event.problems else 0
            brought = f", {pluralize(problems, 'new problem')}" if problems else ""
            return f"done, {pluralize(count_of(event), 'line')}{changed}{brought}"
        case "failed":
            said, program = why_failed(event), event.program
            parts = (program.how, *said[-1:]) if program else said[:1]
            why = ": ".join(sanitised_line(part)[:300].rstrip(".") for part in parts)
            return f"failed{changed}: {why}" if why else f"failed{changed}"
        case _:
            return f"{event.status}{changed}"


def lines_of_text(text: str) -> tuple[str, ...]:
    """Untrusted text as lines, without control sequences."""
    return tuple(sanitised(text).expandtabs(4).rstrip().split("\n")) if text.strip() else ()


def plain_lines(lines: Sequence[Line]) -> tuple[str, ...]:
    """Styled lines as plain text, without decoration."""
    return tuple(_DRAWING_CHARS.sub("", "".join(words for words, _ in line)).rstrip() for line in lines)


def pending_lines(before: Printing) -> tuple[str, ...]:
    """The lines not printed yet."""
    return lines_of_text(before.pending)


def _flush_pending(before: Printing, *lines: str) -> tuple[Printing, tuple[str, ...]]:
    """These lines, after any unprinted text."""
    return replace(before, pending="", in_code=False), (*pending_lines(before), *lines)


def _add_text(before: Printing, text: str) -> tuple[Printing, tuple[str, ...]]:
    """The sentences completed by a piece of an answer. Only the new piece is scanned."""
    pending, looked_at = before.pending + text, max(0, len(before.pending) - 8)
    after = replace(before, pending=pending, has_turn_text=True, has_step_text=True)
    if not _SPACE.search(text) and not _SENTENCE.search(text) and len(pending) < MAX_PENDING_CHARS:
        return after, ()
    lines: list[str] = []
    in_code, start = before.in_code, 0
    while True:
        end = _end(pending, start, max(start, looked_at), in_code)
        if end is None:
            break
        piece = pending[start:end]
        if piece.endswith("\n") and _FENCE.match(piece):
            in_code = not in_code
        lines += sanitised(piece).expandtabs(4).rstrip().split("\n")
        start = end
    return replace(after, pending=pending[start:], in_code=in_code), tuple(lines)


def _end(text: str, start: int, looked_at: int, in_code: bool) -> int | None:
    """The end of the line or sentence at `start`; None if incomplete."""
    most = min(len(text), start + MAX_PENDING_CHARS)
    newline = text.find("\n", looked_at, most)
    if not in_code and not _FENCE.match(text, start):
        for found in _SENTENCE.finditer(text, looked_at, newline if newline >= 0 else most):
            if found.end() - start >= SHORTEST:
                return found.end()
    if newline >= 0:
        return newline + 1
    if len(text) - start >= MAX_PENDING_CHARS:
        blank = text.rfind(" ", start, most)
        return blank + 1 if blank > start else most
    return None
