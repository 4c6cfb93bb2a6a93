"""Formats session events as sentences for line mode."""

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
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.view.block_groups import LookupGroup, is_lookup, lookup_summary
from ebbtide.tui.view.blocks import (
    Call,
)
from ebbtide.tui.view.call_titles import call_title
from ebbtide.tui.view.plain_lines import call_line, new_block_lines, text_lines
from ebbtide.tui.view.reduce import finished_call

MIN_SENTENCE_CHARS = 40
"""Minimum number of characters for a sentence to be printed on its own."""
MAX_PENDING_CHARS = 1_000
"""Maximum number of characters held back while waiting for a sentence to end."""

_SENTENCE_END = re.compile(r"[.!?…:;][\"'”’)\]*_`]*\s+|[。！？]")
_FENCE = re.compile(r"\s*(```|~~~)")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class PrintState:
    """A turn's unprinted text, and the state that later lines depend on."""

    pending_text: str = ""
    """The incomplete sentence at the end of the text so far."""
    is_in_code: bool = False
    """Whether the text is inside a code fence, where text is split only at line breaks."""
    has_turn_text: bool = False
    """Whether the model has written text in the current turn."""
    has_step_text: bool = False
    """Whether the model has written text in the current step."""
    calls: Mapping[str, Call] = field(default_factory=dict)
    """Calls by id."""
    lookups: tuple[tuple[Call, str], ...] = ()
    """Consecutive finished lookups, each with its line. They will be printed as one line."""


_FLUSHING_EVENTS = (TurnStarted, TurnFinished, TurnFailed, PermissionAsked, QuestionAsked, PlanSubmitted)
"""Events after which other code prints text. Lookups collected so far must be printed first."""


def event_lines(state: PrintState, event: Event, *, is_full: bool = False) -> tuple[PrintState, tuple[str, ...]]:
    """Format an event as lines to print. Also returns the new state. Consecutive lookups are printed as one line before
    the next event of another kind, or one by one if `is_full`."""
    new_state, lines = _format_event_lines(state, event)
    if isinstance(event, ToolFinished) and event.status == "done" and lines and not is_full:
        call = state.calls.get(event.call_id)
        if call is not None and is_lookup(call):
            return replace(new_state, lookups=(*state.lookups, (call, lines[-1]))), lines[:-1]
    if not state.lookups or not (lines or isinstance(event, _FLUSHING_EVENTS)):
        return new_state, lines
    return replace(new_state, lookups=()), (_lookup_line(state.lookups), *lines)


def _lookup_line(lookups: Sequence[tuple[Call, str]]) -> str:
    if len(lookups) == 1:
        return lookups[0][1]
    summary, subjects = lookup_summary(LookupGroup(tuple(call for call, _ in lookups)))
    return f"{summary}: {sanitise_line(subjects)}."


def _format_event_lines(state: PrintState, event: Event) -> tuple[PrintState, tuple[str, ...]]:
    match event:
        case TurnStarted():
            return PrintState(), ()
        case StepStarted():
            new_state, lines = _flush_pending(state)
            return replace(new_state, has_step_text=False), lines
        case TextDelta(text=text):
            return _add_text(state, text)
        case ToolStarted() | PermissionAsked() | CallEdited():
            previous_call = state.calls.get(event.call_id, Call(event.call_id, event.name))
            is_edited = isinstance(event, CallEdited) or previous_call.is_edited
            call = replace(previous_call, name=event.name, arguments=event.arguments, is_edited=is_edited)
            return _flush_pending(replace(state, calls={**state.calls, call.call_id: call}))
        case CallDenied(name=name, arguments=arguments):
            return _flush_pending(state, f"Tool {call_title(name, arguments)}: denied.")
        case ToolFinished(status="denied"):
            return state, ()  # already printed when the call was denied
        case ToolFinished():
            output_lines = text_lines(event.text) if event.call_id.startswith(USER_CALL_PREFIX) else ()
            started_call = state.calls.get(event.call_id, Call(event.call_id, event.name))
            return _flush_pending(state, *output_lines, call_line(finished_call(started_call, event)))
        case CallsRead():
            return replace(state, pending_text="", is_in_code=False), ("The model's text was a tool call.",)
        case RetryScheduled() | WindowLearned():
            discard_notes = (
                ("The model's text since your message or the last tool call is discarded.",)
                if state.has_step_text
                else ()
            )
            return replace(state, pending_text="", is_in_code=False, has_step_text=False), (
                *new_block_lines(event),
                *discard_notes,
            )
        case HookStatus(text=text) if text:
            return _flush_pending(state, sanitise_line(text))
        case FilesChanged():
            return state, ()  # printed at the end of the turn
        case CompactionStarted(used=used):
            return _flush_pending(state, f"Compacting {used:,} tokens.")
        case NothingCompacted():
            return _flush_pending(state, "Nothing was compacted.")
        case TurnFinished(end="interrupted"):
            return _flush_pending(state)  # the turn's total says so
        case TurnFinished(text=text) if text and not state.has_turn_text:
            return _flush_pending(state, *text_lines(text), *new_block_lines(event))
        case _:
            return _flush_pending(state, *new_block_lines(event))


def pending_lines(state: PrintState) -> tuple[str, ...]:
    """Get the lines that have not been printed yet."""
    return text_lines(state.pending_text)


def _flush_pending(state: PrintState, *lines: str) -> tuple[PrintState, tuple[str, ...]]:
    """Take the pending text out of the state. Returns the lines to print: the pending text, then `lines`."""
    return replace(state, pending_text="", is_in_code=False), (*pending_lines(state), *lines)


def _add_text(state: PrintState, text: str) -> tuple[PrintState, tuple[str, ...]]:
    """Add text to an answer. Returns the new state and the sentences that are now complete. Only the new text is
    scanned."""
    pending = state.pending_text + text
    scan_start = max(0, len(state.pending_text) - 8)
    new_state = replace(state, pending_text=pending, has_turn_text=True, has_step_text=True)
    if not _SPACE.search(text) and not _SENTENCE_END.search(text) and len(pending) < MAX_PENDING_CHARS:
        return new_state, ()
    lines: list[str] = []
    in_code = state.is_in_code
    start = 0
    while True:
        end = _sentence_end(pending, start, max(start, scan_start), in_code)
        if end is None:
            break
        piece = pending[start:end]
        if piece.endswith("\n") and _FENCE.match(piece):
            in_code = not in_code
        lines += sanitise(piece).expandtabs(4).rstrip().split("\n")
        start = end
    return replace(new_state, pending_text=pending[start:], is_in_code=in_code), tuple(lines)


def _sentence_end(text: str, start: int, scan_start: int, in_code: bool) -> int | None:
    """Find the end of the line or sentence that begins at `start`; None if it is incomplete."""
    limit = min(len(text), start + MAX_PENDING_CHARS)
    newline = text.find("\n", scan_start, limit)
    if not in_code and not _FENCE.match(text, start):
        for match in _SENTENCE_END.finditer(text, scan_start, newline if newline >= 0 else limit):
            if match.end() - start >= MIN_SENTENCE_CHARS:
                return match.end()
    if newline >= 0:
        return newline + 1
    if len(text) - start >= MAX_PENDING_CHARS:
        space_offset = text.rfind(" ", start, limit)
        return space_offset + 1 if space_offset > start else limit
    return None
