"""Open questions of every kind. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanSubmitted
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.permission import panel_of_call
from ebbtide.tui.view.plan import panel_of_plan
from ebbtide.tui.view.question import Choice, QuestionSpec, Subject, Writing

OWN_WORDS = "or your own words"


def panel_of(question: OpenQuestion) -> QuestionSpec:
    """Return the question to show."""
    return replace(_panel_of(question), about=question)


def _panel_of(question: OpenQuestion) -> QuestionSpec:
    match question:
        case PermissionAsked():
            return panel_of_call(question)
        case PlanSubmitted():
            return panel_of_plan(question)
        case QuestionAsked():
            return _in_words(question)


def _in_words(question: QuestionAsked) -> QuestionSpec:
    first, *rest = sanitised(question.question).strip("\n").split("\n")
    choices = tuple(Choice(option, answer=option, is_lasting=question.is_lasting) for option in question.options)
    hint = OWN_WORDS if choices else "your answer"
    words = Writing("words", lambda text: text.strip() or None, hint) if question.takes_words else None
    headline: Line = (("? ", "warn"), (first, "strong"))
    return QuestionSpec(
        headline, Subject("words", "\n".join(rest).strip("\n")), choices, words=words, several=question.several
    )


def panel_to_confirm(question: str, lines: Sequence[Line], yes: str) -> QuestionSpec:
    """A yes/no confirmation. `yes`: what yes does, in a word or two."""
    choices = (Choice(f"Yes, {yes}", "y", answer=True), Choice("No", "n", answer=False))
    headline: Line = (("? ", "warn"), (question, "strong"))
    return QuestionSpec(headline, Subject("lines", lines=tuple(lines)), choices, stop="cancels")
