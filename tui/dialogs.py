"""Shows open questions on the screen, one at a time."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import App

from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tui import screens, view
from ebbtide.tui.view.blocks import OpenQuestion, SessionView

if TYPE_CHECKING:  # loads with the first question
    from ebbtide.tui.screens.question import QuestionDisplay
    from ebbtide.tui.view.question import Answer


class QuestionDialogs:
    """Shows one open question at a time. Closes questions that were answered elsewhere or no longer apply."""

    def __init__(
        self,
        app: App[Any],
        send_answer: Callable[[str, Decision | PlanDecision | str], None],
        interrupt_turn: Callable[[], None],
    ) -> None:
        """`interrupt_turn` interrupts the turn and withdraws its open questions."""
        self._app = app
        self._send_answer = send_answer
        self._interrupt_turn = interrupt_turn
        self._displayed_question: OpenQuestion | None = None
        self._question_display: QuestionDisplay | None = None
        self._open_questions: tuple[OpenQuestion, ...] = ()
        self._answered_count = 0
        """Number of questions answered since the last time no question was open."""
        self._unconfirmed_ids: set[str] = set()
        """Ids of questions whose answer has been sent but not yet confirmed by the session."""

    def update(self, view: SessionView) -> None:
        self._update(view.open_questions)

    def _update(self, open_questions: Sequence[OpenQuestion]) -> None:
        self._open_questions = tuple(open_questions)
        self._unconfirmed_ids &= {question.id for question in open_questions}
        unanswered = [question for question in open_questions if question.id not in self._unconfirmed_ids]
        next_question = unanswered[0] if unanswered else None
        if (
            self._question_display is not None
            and self._displayed_question != next_question
            and self._question_display.can_close
        ):
            display = self._question_display
            self._displayed_question = self._question_display = None
            display.close()
        if not unanswered:
            self._answered_count = 0
        position_text = (
            f"{self._answered_count + 1} of {self._answered_count + len(unanswered)}"
            if self._answered_count + len(unanswered) > 1
            else ""
        )
        if next_question is not None and self._question_display is None:
            self._displayed_question = next_question
            self._question_display = screens.question.QuestionDisplay(
                self._app,
                view.questions.build_question_spec(next_question),
                partial(self._record_answer, next_question),
                position_text,
            )
        elif self._question_display is not None:
            self._question_display.show_position(position_text)

    def _record_answer(self, question: OpenQuestion, answer: "Answer | None") -> None:
        """Pass the answer to the session. None (Esc) interrupts the turn."""
        self._displayed_question = self._question_display = None
        self._unconfirmed_ids.add(question.id)
        self._answered_count += 1
        if isinstance(answer, Decision | PlanDecision | str):
            self._send_answer(question.id, answer)
        else:
            self._interrupt_turn()
        self._update(self._open_questions)
