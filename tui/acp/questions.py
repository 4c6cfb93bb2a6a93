"""Questions in the form that an editor can show, and the meaning of its answers. Only an offered choice can allow
anything. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acp.helpers import text_block, tool_content
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    ElicitationFormSessionMode,
    ElicitationMultiSelectPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    PermissionOption,
    PermissionOptionKind,
    StringMultiSelectItems,
    ToolCallUpdate,
)

from ebbtide.agent.channel import Answer
from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tui.acp.updates import CallContent, call_content, kind_of, locations
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.question import Choice, QuestionSpec
from ebbtide.tui.view.questions import panel_of

NO_WORDS = "(nobody could be asked: the editor only lets its user choose; ask in your answer instead)"
"""The answer to a question that the editor cannot show."""
CHOICE_FIELD, TEXT_FIELD = "choice", "answer"
"""The fields of a form."""


@dataclass(frozen=True, slots=True)
class EditorQuestion:
    """A question for the editor."""

    call: ToolCallUpdate
    options: tuple[PermissionOption, ...]
    answers: Mapping[str, Answer]
    """Answers by option id."""
    otherwise: Answer
    """The answer for anything else."""

    def answer(self, outcome: AllowedOutcome | DeniedOutcome) -> Answer:
        if isinstance(outcome, AllowedOutcome):
            return self.answers.get(outcome.option_id, self.otherwise)
        return self.otherwise


def editor_question(question: OpenQuestion, root: str) -> EditorQuestion:
    """The question with the interface's choices, except those that need text."""
    spec = panel_of(question)
    lasting = [choice for choice in spec.for_project if choice.is_lasting]
    first_no = next((n for n, each in enumerate(spec.choices) if _kind(each).startswith("reject")), len(spec.choices))
    choices = [*spec.choices[:first_no], *lasting, *spec.choices[first_no:]]
    named = {f"{number}": choice for number, choice in enumerate(choices) if choice.answer is not None}
    options = tuple(
        PermissionOption(option_id=id, name=_name(choice), kind=_kind(choice)) for id, choice in named.items()
    )
    answers = {id: choice.answer for id, choice in named.items() if not isinstance(choice.answer, bool | None)}
    return EditorQuestion(_call(question, spec, root), options, answers, _otherwise(question, options))


def form_of(question: QuestionAsked, session: str) -> ElicitationFormSessionMode:
    """The question as a form with choices, a text, or both."""
    fields: dict[str, Any] = {}
    options = list(question.options)
    if options and question.several:
        items = StringMultiSelectItems(type="string", enum=options)
        fields[CHOICE_FIELD] = ElicitationMultiSelectPropertySchema(type="array", title="Answers", items=items)
    elif options:
        fields[CHOICE_FIELD] = ElicitationStringPropertySchema(type="string", title="Answer", enum=options)
    if question.takes_words:
        title = "Or in your own words" if options else "Answer"
        fields[TEXT_FIELD] = ElicitationStringPropertySchema(type="string", title=title)
    required = [*fields] if len(fields) == 1 else None
    schema = ElicitationSchema(type="object", properties=fields, required=required)
    return ElicitationFormSessionMode(session_id=session, requested_schema=schema)


def form_answer(question: QuestionAsked, content: Mapping[str, object]) -> str:
    """The submitted text, or else the chosen options, one per line; unknown options are ignored."""
    words, chosen = content.get(TEXT_FIELD), content.get(CHOICE_FIELD)
    if question.takes_words and isinstance(words, str) and words.strip():
        return words.strip()
    picked = chosen if isinstance(chosen, list) else [chosen]
    return "\n".join(option for option in question.options if option in picked)


def _call(question: OpenQuestion, spec: QuestionSpec, root: str) -> ToolCallUpdate:
    headline = _words(spec.headline).removeprefix("? ")
    reason = "\n\n".join(filter(None, map(_words, spec.reason)))
    if isinstance(question, PermissionAsked):
        content: list[CallContent] = [
            *call_content(question.arguments, question.preview, root),
            tool_content(text_block(reason)),
        ]
        return ToolCallUpdate(
            tool_call_id=question.call_id,
            title=headline,
            kind=kind_of(question.name),
            status="pending",
            content=content,
            locations=locations(question.arguments, root),
            raw_input=dict(question.arguments),
        )
    is_plan = isinstance(question, PlanSubmitted)
    return ToolCallUpdate(
        tool_call_id=question.call_id if isinstance(question, PlanSubmitted) else question.id,
        title=headline,
        kind="switch_mode" if is_plan else "think",
        status="pending",
        content=[tool_content(text_block(spec.subject.text))] if spec.subject.text else [],
    )


def _otherwise(question: OpenQuestion, options: Sequence[PermissionOption]) -> Answer:
    match question:
        case PermissionAsked():
            return Decision("deny")
        case PlanSubmitted():
            return PlanDecision("reject")
        case QuestionAsked():
            return "" if options else NO_WORDS


def _name(choice: Choice) -> str:
    return f"{choice.label} ({choice.rule_text})" if choice.rule_text and choice.is_lasting else choice.label


def _kind(choice: Choice) -> PermissionOptionKind:
    """The kind of a choice, which determines how the editor shows it."""
    match choice.answer:
        case Decision(verdict="deny") | PlanDecision(verdict="reject") | "not now":
            return "reject_once"
        case str() as words if words.startswith("never"):
            return "reject_always"
        case _:
            return "allow_always" if choice.is_lasting else "allow_once"


def _words(line: Line) -> str:
    return "".join(text for text, _ in line)
