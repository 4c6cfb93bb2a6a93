"""Shows open questions on the screen, one at a time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from textual.app import App

from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tui.screens.question import QuestionDisplay
from ebbtide.tui.view.blocks import OpenQuestion, SessionView
from ebbtide.tui.view.question import Answer
from ebbtide.tui.view.questions import question_spec


class Dialogs:
    """Shows one open question at a time, and closes questions that were answered elsewhere or no longer apply."""

    def __init__(
        self, app: App[Any], answer: Callable[[str, Decision | PlanDecision | str], None], stop: Callable[[], None]
    ) -> None:
        """`stop` interrupts the turn and its open questions."""
        self._app = app
        self._answer = answer
        self._stop = stop
        self._displayed: tuple[OpenQuestion, QuestionDisplay] | None = None
        self._open_questions: tuple[OpenQuestion, ...] = ()
        self._answered_count = 0
        """Number of questions answered since more than one was open; 0 once none is left."""
        self._answered: set[str] = set()
        """Ids of questions whose answer was sent but is not yet confirmed by the session."""

    def show(self, view: SessionView) -> None:
        self._show(view.open_questions)

    def _show(self, open_questions: Sequence[OpenQuestion]) -> None:
        self._open_questions = tuple(open_questions)
        self._answered &= {question.id for question in open_questions}
        unanswered = [question for question in open_questions if question.id not in self._answered]
        next_question = unanswered[0] if unanswered else None
        if self._displayed is not None and self._displayed[0] != next_question and self._displayed[1].can_close:
            display, self._displayed = self._displayed[1], None
            display.close()
        if not unanswered:
            self._answered_count = 0
        position = (
            f"{self._answered_count + 1} of {self._answered_count + len(unanswered)}"
            if self._answered_count + len(unanswered) > 1
            else ""
        )
        if next_question is not None and self._displayed is None:
            self._displayed = (
                next_question,
                QuestionDisplay(
                    self._app, question_spec(next_question), partial(self._record_answer, next_question), position
                ),
            )
        elif self._displayed is not None:
            self._displayed[1].show_position(position)

    def _record_answer(self, question: OpenQuestion, answer: Answer | None) -> None:
        """Pass the answer to the session. None (Esc) interrupts the turn."""
        self._displayed = None
        self._answered.add(question.id)
        self._answered_count += 1
        if isinstance(answer, Decision | PlanDecision | str):
            self._answer(question.id, answer)
        else:
            self._stop()
        self._show(self._open_questions)
