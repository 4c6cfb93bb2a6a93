"""Converts questions to requests for an editor, and its responses to answers. Nothing is allowed unless the editor
returns a choice that was offered. No I/O."""

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
from ebbtide.agent.prompt.code_blocks import fenced_lines
from ebbtide.tui.integrations.acp.updates import CallContent, call_content, call_locations, tool_kind
from ebbtide.tui.text.spans import line_text
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.call_titles import argument_lines
from ebbtide.tui.view.question import Choice, QuestionSpec
from ebbtide.tui.view.questions import build_question_spec

QUESTION_NOT_DISPLAYED_ANSWER = (
    "(the question was not shown: the editor supports only multiple choice; ask in your answer instead)"
)
"""The answer given to the model if the editor cannot show its question."""
CHOICE_FIELD, TEXT_FIELD = "choice", "answer"
"""The fields of a form."""


@dataclass(frozen=True, slots=True)
class EditorQuestion:
    """A question as the editor shows it."""

    call: ToolCallUpdate
    options: tuple[PermissionOption, ...]
    answers: Mapping[str, Answer]
    """Answers by option id."""
    default_answer: Answer
    """The answer if the editor returns anything other than a known option."""

    def parse_outcome(self, outcome: AllowedOutcome | DeniedOutcome) -> Answer:
        if isinstance(outcome, AllowedOutcome):
            return self.answers.get(outcome.option_id, self.default_answer)
        return self.default_answer


def editor_question(question: OpenQuestion, root: str) -> EditorQuestion:
    """Convert a question, with the interface's choices except those that need text or a further question."""
    spec = build_question_spec(question)
    lasting_choices = [choice for choice in spec.project_choices if choice.is_lasting]
    rejections = [choice for choice in spec.choices if _option_kind(choice).startswith("reject")]
    approvals = [choice for choice in spec.choices if choice not in rejections]
    choices = [*approvals, *lasting_choices, *rejections]
    choices_by_id = {f"{index}": choice for index, choice in enumerate(choices) if choice.answer is not None}
    options = tuple(
        PermissionOption(option_id=option_id, name=_option_name(choice), kind=_option_kind(choice))
        for option_id, choice in choices_by_id.items()
    )
    answers = {
        option_id: choice.answer
        for option_id, choice in choices_by_id.items()
        if not isinstance(choice.answer, bool | None)
    }
    return EditorQuestion(_question_call(question, spec, root), options, answers, _default_answer(question, options))


def question_form(question: QuestionAsked, session_id: str) -> ElicitationFormSessionMode:
    """Convert a question to a form with choices, a text field or both."""
    fields: dict[str, Any] = {}
    options = list(question.options)
    if options and question.several:
        items = StringMultiSelectItems(type="string", enum=options)
        fields[CHOICE_FIELD] = ElicitationMultiSelectPropertySchema(type="array", title="Answers", items=items)
    elif options:
        fields[CHOICE_FIELD] = ElicitationStringPropertySchema(type="string", title="Answer", enum=options)
    if question.takes_words:
        title = "Or your own answer" if options else "Answer"
        fields[TEXT_FIELD] = ElicitationStringPropertySchema(type="string", title=title)
    required = [*fields] if len(fields) == 1 else None
    schema = ElicitationSchema(type="object", properties=fields, required=required)
    return ElicitationFormSessionMode(session_id=session_id, requested_schema=schema)


def form_answer(question: QuestionAsked, content: Mapping[str, object]) -> str:
    """Get the submitted text or, if there is none, the chosen options, one per line. Unknown options are ignored."""
    written_text, choice = content.get(TEXT_FIELD), content.get(CHOICE_FIELD)
    if question.takes_words and isinstance(written_text, str) and written_text.strip():
        return written_text.strip()
    chosen_options = choice if isinstance(choice, list) else [choice]
    return "\n".join(option for option in question.options if option in chosen_options)


def _question_call(question: OpenQuestion, spec: QuestionSpec, root: str) -> ToolCallUpdate:
    headline = line_text(spec.headline).removeprefix("? ")
    reason = "\n\n".join(filter(None, map(line_text, spec.reason)))
    if isinstance(question, PermissionAsked):
        argument_text = "\n".join(argument_lines(spec.subject.arguments))
        content: list[CallContent] = [
            *call_content(question.arguments, question.preview, root),
            *([tool_content(text_block("\n".join(fenced_lines(argument_text))))] if argument_text else []),
            tool_content(text_block(reason)),
        ]
        return ToolCallUpdate(
            tool_call_id=question.call_id,
            title=headline,
            kind=tool_kind(question.name),
            status="pending",
            content=content,
            locations=call_locations(question.arguments, root),
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


def _default_answer(question: OpenQuestion, options: Sequence[PermissionOption]) -> Answer:
    match question:
        case PermissionAsked():
            return Decision("deny")
        case PlanSubmitted():
            return PlanDecision("reject")
        case QuestionAsked():
            return "" if options else QUESTION_NOT_DISPLAYED_ANSWER


def _option_name(choice: Choice) -> str:
    return f"{choice.label} ({choice.rule_text})" if choice.rule_text and choice.is_lasting else choice.label


def _option_kind(choice: Choice) -> PermissionOptionKind:
    """Get the protocol's kind for a choice, which determines how the editor displays it."""
    match choice.answer:
        case Decision(verdict="deny") | PlanDecision(verdict="reject") | "not now":
            return "reject_once"
        case str() as text if text.startswith("never"):
            return "reject_always"
        case _:
            return "allow_always" if choice.is_lasting else "allow_once"
