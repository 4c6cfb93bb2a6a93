"""The question that is on the screen."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from textual.app import App

from agent.events import Decision, PermissionAsked
from agent.plan_events import PlanDecision, PlanSubmitted
from tui.screens.permission import PermissionScreen
from tui.screens.plan import PlanScreen
from tui.screens.question import QuestionScreen
from tui.view.blocks import Call, Notice, OpenQuestion, SessionView

Answer: TypeAlias = Decision | PlanDecision | str


class Dialogs:
    """Shows one open question after the other, and takes away what was answered elsewhere or has become void."""

    def __init__(self, app: App[Any], answer: Callable[[str, Answer], None], stop: Callable[[], None]) -> None:
        """`stop`: ends the turn, and the open questions with it."""
        self._app = app
        self._answer = answer
        self._stop = stop
        self._shown: PermissionScreen | PlanScreen | QuestionScreen | None = None
        self._open: tuple[OpenQuestion, ...] = ()
        self._told: tuple[str, ...] = ()
        self._answered: set[str] = set()
        """Questions whose answer is on its way: they are open until the session says otherwise."""

    def show(self, view: SessionView) -> None:
        told, self._told = self._told, told_just_before(view)
        self._show(view.asked)
        if self._shown is not None and told != self._told:
            self._shown.tell(self._told)

    def _show(self, asked: Sequence[OpenQuestion]) -> None:
        self._open = tuple(asked)
        self._answered &= {question.id for question in asked}
        due = next((question for question in asked if question.id not in self._answered), None)
        shown = self._shown
        if shown is not None and shown is self._app.screen and shown.question != due:
            self._shown = None
            shown.dismiss(None)
        if due is not None and self._shown is None:
            self._ask(due)

    def _ask(self, question: OpenQuestion) -> None:
        def answered(answer: Answer | None) -> None:
            self._shown = None
            if answer is not None:
                self._answered.add(question.id)
                self._answer(question.id, answer)
            self._show(self._open)

        def decided(decision: Decision | PlanDecision | Literal["stop"] | None) -> None:
            if decision != "stop":
                return answered(decision)
            self._answered.add(question.id)
            self._stop()
            return answered(None)

        if isinstance(question, PermissionAsked):
            permission = PermissionScreen(question, self._told)
            self._shown = permission
            self._app.push_screen(permission, decided)
        elif isinstance(question, PlanSubmitted):
            plan = PlanScreen(question, self._told)
            self._shown = plan
            self._app.push_screen(plan, decided)
        else:
            words = QuestionScreen(question, self._told)
            self._shown = words
            self._app.push_screen(words, answered)


def told_just_before(view: SessionView) -> tuple[str, ...]:
    """The notices at the end of what is shown, before and behind calls that have not ended: a question covers them."""
    told: list[str] = []
    for block in reversed(view.turn):
        if isinstance(block, Notice):
            told.append(block.text)
        elif not (isinstance(block, Call) and block.status in ("running", "asking")):
            break
    return tuple(reversed(told))
