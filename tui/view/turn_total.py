"""The line at the end of a turn: its time, cost and file changes."""

from dataclasses import replace
from typing import TYPE_CHECKING

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.numbers import dollars, seconds, tokens
from ebbtide.tui.view.blocks import SessionView, TurnTotal

if TYPE_CHECKING:  # a type only: events are loaded behind the first paint
    from ebbtide.agent.events.view import FilesChanged


class TurnTime:
    """Measures a turn without the time spent waiting for the user. The caller supplies the time."""

    def __init__(self, now: float) -> None:
        self._at, self._counted, self._is_asked = now, 0.0, False

    def at(self, now: float, *, is_asked: bool) -> float:
        """The seconds counted at `now`. Must be called whenever a question may have opened or closed."""
        if not self._is_asked:
            self._counted += now - self._at
        self._at, self._is_asked = now, is_asked
        return self._counted


def with_files(view: SessionView, changed: "FilesChanged") -> SessionView:
    """The view of an ending turn with its file changes."""
    return view.plus(TurnTotal(files=changed))


def with_total(view: SessionView, took: float) -> SessionView:
    """The view of a finished turn with its total line; unchanged if no model was called and no file changed."""
    before = next((block for block in reversed(view.turn) if isinstance(block, TurnTotal)), None)
    if before is None and not view.turn_tokens:
        return view
    total = TurnTotal(int(took), view.turn_cost, view.turn_tokens, before.files if before is not None else None)
    kept = tuple(block for block in view.turn if not isinstance(block, TurnTotal))
    return replace(view, turn=(*kept, total))


def total_text(total: TurnTotal) -> str:
    """`12s $0.0123 2 files +10 −3, `/undo` to revert`."""
    files = total.files
    count = pluralize(_count(total), "file")
    changed = f"{count} +{files.added} −{files.removed}, {_undo(total)}" if files is not None and files.files else ""
    return "  ".join(filter(None, (*_time_and_cost(total), changed, _uncovered_note(total))))


def total_words(total: TurnTotal) -> str:
    """The total as a sentence, for line mode."""
    files = total.files
    lines = f" ({pluralize(files.added, 'line')} added, {files.removed} removed)" if files is not None else ""
    changed = f"{pluralize(_count(total), 'file')} changed{lines}, {_undo(total)}" if _count(total) else ""
    told = ", ".join(filter(None, (*_time_and_cost(total), changed)))
    return "; ".join(filter(None, (told, _uncovered_note(total))))


def _time_and_cost(total: TurnTotal) -> tuple[str, ...]:
    """Time and cost; tokens if the cost is unknown; empty if there is nothing to show."""
    if total.seconds is None:
        return ()
    price = dollars(total.cost) if total.cost else f"{tokens(total.tokens)} tokens" if total.tokens else ""
    return (seconds(total.seconds), price)


def _count(total: TurnTotal) -> int:
    return len(total.files.files) if total.files is not None else 0


def _undo(total: TurnTotal) -> str:
    return f"`/undo` takes {'it' if _count(total) == 1 else 'them'} back"


def _uncovered_note(total: TurnTotal) -> str:
    why = total.files.uncovered if total.files is not None else ""
    return f"what commands change here is not covered by `/undo`: {why}" if why else ""
