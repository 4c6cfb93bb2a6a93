"""Open questions of every kind."""

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.permission import build_call_question
from ebbtide.tui.view.plan import build_plan_question
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, TextEntry

OWN_ANSWER_HINT = "or type your own answer"


def build_question_spec(question: OpenQuestion) -> QuestionSpec:
    """Build the question as the interface shows it."""
    return replace(_build_spec(question), source=question)


def _build_spec(question: OpenQuestion) -> QuestionSpec:
    match question:
        case PermissionAsked():
            return build_call_question(question)
        case PlanSubmitted():
            return build_plan_question(question)
        case QuestionAsked():
            return _build_text_question(question)


def _build_text_question(question: QuestionAsked) -> QuestionSpec:
    first_line, *other_lines = sanitise(question.question).strip("\n").split("\n")
    choices = tuple(Choice(option, answer=option, is_lasting=question.is_lasting) for option in question.options)
    hint = OWN_ANSWER_HINT if choices else "your answer"
    free_text = TextEntry("text", lambda text: text.strip() or None, hint) if question.takes_words else None
    headline: Line = (("? ", "warn"), (first_line, "strong"))
    return QuestionSpec(
        headline,
        Subject("text", "\n".join(other_lines).strip("\n")),
        choices,
        free_text=free_text,
        allows_multiple=question.several,
    )


def build_confirmation(question: str, lines: Sequence[Line], confirm_label: str) -> QuestionSpec:
    """Build a yes-no question. `confirm_label`: one or two words that say what confirming does."""
    choices = (Choice(f"Yes, {confirm_label}", "y", answer=True), Choice("No", "n", answer=False))
    headline: Line = (("? ", "warn"), (question, "strong"))
    return QuestionSpec(headline, Subject("lines", lines=tuple(lines)), choices, escape_hint="cancel")
