"""The open question on the screen."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual.app import App

from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tui.screens.question import QuestionDisplay
from ebbtide.tui.view.blocks import OpenQuestion, SessionView
from ebbtide.tui.view.question import Answer
from ebbtide.tui.view.questions import panel_of


class Dialogs:
    """Shows one open question at a time, and removes those answered elsewhere or void."""

    def __init__(
        self, app: App[Any], answer: Callable[[str, Decision | PlanDecision | str], None], stop: Callable[[], None]
    ) -> None:
        """`stop`: interrupts the turn and its open questions."""
        self._app = app
        self._answer = answer
        self._stop = stop
        self._shown: tuple[OpenQuestion, QuestionDisplay] | None = None
        self._open: tuple[OpenQuestion, ...] = ()
        self._done = 0
        """Number of questions answered while others waited."""
        self._answered: set[str] = set()
        """Questions whose answer was sent but not yet confirmed by the session."""

    def show(self, view: SessionView) -> None:
        self._show(view.asked)

    def _show(self, asked: Sequence[OpenQuestion]) -> None:
        self._open = tuple(asked)
        self._answered &= {question.id for question in asked}
        waiting = [question for question in asked if question.id not in self._answered]
        due = waiting[0] if waiting else None
        if self._shown is not None and self._shown[0] != due and self._shown[1].can_close:
            shown, self._shown = self._shown[1], None
            shown.close()
        if not waiting:
            self._done = 0
        place = f"{self._done + 1} of {self._done + len(waiting)}" if self._done + len(waiting) > 1 else ""
        if due is not None and self._shown is None:
            self._shown = (due, QuestionDisplay(self._app, panel_of(due), partial(self._take, due), place))
        elif self._shown is not None:
            self._shown[1].show_position(place)

    def _take(self, question: OpenQuestion, answer: Answer | None) -> None:
        """Pass on the answer; None (Esc) interrupts the turn."""
        self._shown = None
        self._answered.add(question.id)
        self._done += 1
        if isinstance(answer, Decision | PlanDecision | str):
            self._answer(question.id, answer)
        else:
            self._stop()
        self._show(self._open)
