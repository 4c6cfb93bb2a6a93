"""The line at the end of a turn: time, cost and file changes."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import format_dollars, format_duration, format_tokens
from ebbtide.tui.view.blocks import AnswerText, Notice, SessionView, TurnTotal
from ebbtide.tui.view.outcomes import TURN_END_MESSAGES

if TYPE_CHECKING:  # event modules load only after the first paint
    from ebbtide.agent.events.view import FilesChanged

UNDO_HINT = "`/undo` to revert"
INTERRUPTION = Notice(TURN_END_MESSAGES["interrupted"])
"""The notice of an interrupted turn until its total is known."""


class TurnTimer:
    """Measures how long a turn takes, not counting time spent waiting for the user. The caller supplies the current
    time."""

    def __init__(self, now: float) -> None:
        self._last_time, self._counted_seconds, self._is_waiting = now, 0.0, False

    def elapsed_at(self, now: float, *, is_waiting: bool) -> float:
        """Get the seconds counted up to `now`. Must be called whenever a question may have opened or closed."""
        if not self._is_waiting:
            self._counted_seconds += now - self._last_time
        self._last_time, self._is_waiting = now, is_waiting
        return self._counted_seconds


def with_file_changes(view: SessionView, file_changes: "FilesChanged") -> SessionView:
    """Add file changes to the view of a turn that is ending."""
    return view.with_blocks(TurnTotal(files=file_changes))


def with_total(view: SessionView, elapsed_seconds: float) -> SessionView:
    """Add a total line to the view of a finished turn, if the turn called a model, changed a file or was
    interrupted."""
    is_interrupted = view.turn_blocks[-1:] == (INTERRUPTION,)
    changes_block = next((block for block in reversed(view.turn_blocks) if isinstance(block, TurnTotal)), None)
    if changes_block is None and not view.turn_tokens and not is_interrupted:
        return view
    other_blocks = tuple(
        block for block in view.turn_blocks if not isinstance(block, TurnTotal) and block != INTERRUPTION
    )
    total = TurnTotal(
        int(elapsed_seconds),
        view.turn_cost,
        view.turn_tokens,
        changes_block.files if changes_block is not None else None,
        is_interrupted,
        is_interrupted and isinstance(other_blocks[-1], AnswerText) if other_blocks else False,
    )
    return replace(view, turn_blocks=(*other_blocks, total))


def total_text(total: TurnTotal) -> str:
    """Format the total as one line, such as `12s  $0.0123  2 files +10 −3`. An interruption is a line before it."""
    files = total.files
    count_text = pluralize(_changed_file_count(total), "file")
    changes_text = (
        f"{count_text} +{files.added} −{files.removed}, {UNDO_HINT}" if files is not None and files.files else ""
    )
    facts = "  ".join(filter(None, (*_time_and_cost(total), changes_text, _uncovered_note(total))))
    return "\n".join(filter(None, (interruption_text(total), facts)))


def interruption_text(total: TurnTotal) -> str:
    """Say that the turn was interrupted, and ask how to continue; empty if it was not interrupted."""
    if not total.is_interrupted:
        return ""
    if total.seconds is None:  # of a resumed session
        return "Interrupted."
    partial_note = ", partial answer kept" if total.has_partial_answer else ""
    return f"Interrupted after {format_duration(total.seconds)}{partial_note}. What should I do instead?"


def total_sentence(total: TurnTotal) -> str:
    """Format the total as a sentence for line mode, without an interruption."""
    files = total.files
    lines_text = f" ({pluralize(files.added, 'line')} added, {files.removed} removed)" if files is not None else ""
    changes_text = (
        f"{pluralize(_changed_file_count(total), 'file')} changed{lines_text}, {UNDO_HINT}"
        if _changed_file_count(total)
        else ""
    )
    facts = ", ".join(filter(None, (*_time_and_cost(total), changes_text)))
    return "; ".join(filter(None, (facts, _uncovered_note(total))))


def _time_and_cost(total: TurnTotal) -> tuple[str, ...]:
    """Format the time and the cost, or the tokens if the cost is unknown. Empty if the turn has not ended; without the
    time if the interruption already says it."""
    if total.seconds is None:
        return ()
    price = (
        format_dollars(total.cost) if total.cost else f"{format_tokens(total.tokens)} tokens" if total.tokens else ""
    )
    return ("" if total.is_interrupted else format_duration(total.seconds), price)


def _changed_file_count(total: TurnTotal) -> int:
    return len(total.files.files) if total.files is not None else 0


def _uncovered_note(total: TurnTotal) -> str:
    reason = total.files.uncovered if total.files is not None else ""
    return f"`/undo` does not cover changes made by commands: {reason}" if reason else ""
