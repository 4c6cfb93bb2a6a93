"""Formats questions as lines, and parses typed answers."""

import re
from collections.abc import Mapping

from ebbtide.agent.events.permissions import Decision, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.slash_commands import parse_command
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.unified_diff import DiffLine, Hunk, Remark, parse_diff
from ebbtide.tui.view.call_titles import argument_lines
from ebbtide.tui.view.permission import SCOPE_TEXTS, describe_rule
from ebbtide.tui.view.plain_lines import plain_lines, text_lines
from ebbtide.tui.view.question import (
    Answer,
    Choice,
    QuestionSpec,
    Subject,
    TextEntry,
    choice_number,
    find_typed_choice,
    has_extras,
)

ANSWER_PROMPT = "Answer: "

_PROJECT_RULE_ANSWER = re.compile(r"p *([0-9]{1,2})")
"""The answer that stores a rule for the project: `p` and the rule's number."""
_CHANGES_ANSWER = re.compile(r"c +([0-9][0-9 ,]*)")
"""The answer that makes only some changes of a call: `c` and their numbers."""
MORE_RULES_ANSWER = "r"
"""The answer that lists further rules."""
_ANSWER_WORDS: Mapping[str, str] = {"yes": "y", "ok": "y", "accept": "y", "no": "n", "always": "a", "edit": "e"}


def question_lines(spec: QuestionSpec) -> tuple[str, ...]:
    """Format a question: its headline, subject, reason and possible answers."""
    (headline,) = plain_lines([spec.headline[1:]])
    return (
        f"Question: {headline}",
        *_subject_lines(spec.subject),
        *filter(None, plain_lines(spec.reason)),
        *answer_help(spec),
    )


def _subject_lines(subject: Subject) -> tuple[str, ...]:
    match subject.kind:
        case "diff":
            return diff_in_words(subject.text)
        case "arguments":
            return text_lines("\n".join(argument_lines(subject.arguments)))
        case "lines":
            return plain_lines(subject.lines)
        case "code" | "markdown" | "text":
            return text_lines(subject.text)


def answer_help(spec: QuestionSpec) -> tuple[str, ...]:
    """List the possible answers, with the same numbers and letters as in the question panel."""
    lines = [
        _choice_line(choice_number(choice, index), choice)
        for index, choice in enumerate(spec.choices)
        if not choice.is_extra
    ]
    if isinstance(spec.source, QuestionAsked):
        answer_forms = ["numbers separated by spaces" if spec.allows_multiple else "a number"] if spec.choices else []
        answer_forms += [f"your {'own ' if answer_forms else ''}answer"] if spec.free_text is not None else []
        return (*lines, f"Type {' or '.join(answer_forms)}; an empty line skips the question.")
    if (changes := _changes_question(spec)) is not None:
        lines += [f"  Change {number}: {choice.label}" for number, choice in enumerate(changes.choices, 1)]
        lines.append("c and numbers: make only these changes, as in c 1 2")
    if has_extras(spec):
        lines.append(f"{MORE_RULES_ANSWER}: more rules")
    if spec.project_choices:
        lines.append(f"p and the number of a rule: remember for this project, in {sanitise_line(spec.project_file)}")
    lines.append(
        "Any other text: no, and it is sent to the model." if _denial_text_entry(spec) else "An empty line cancels."
    )
    return tuple(lines)


def more_rules_lines(spec: QuestionSpec) -> tuple[str, ...]:
    """List the further rules."""
    return tuple(_choice_line(choice.number, choice) for choice in spec.choices if choice.is_extra)


def _changes_question(spec: QuestionSpec) -> QuestionSpec | None:
    """Find the question which changes are made, if any."""
    return next((choice.further_question for choice in spec.choices if choice.further_question is not None), None)


def _choice_line(number: int, choice: Choice) -> str:
    letter = f" or {choice.key}" if choice.key else ""
    rule = f"; rule: {sanitise_line(choice.rule_text)}" if choice.is_lasting and choice.rule_text else ""
    details_text = f"; {sanitise_line(choice.details)}" if choice.details else ""
    # A denial needs no text here: any other line denies with a message.
    label = (
        choice.label.partition(",")[0] if choice.answer is not None and choice.text_entry is not None else choice.label
    )
    return f"{number}{letter}: {sanitise_line(label)}{rule}{details_text}"


def _denial_text_entry(spec: QuestionSpec) -> TextEntry | None:
    """Find the choice that denies with a message for the model, and return its text entry; None if there is no such
    choice."""
    return next(
        (
            choice.text_entry
            for choice in spec.choices
            if choice.text_entry is not None and choice.text_entry.kind == "text" and choice.answer is not None
        ),
        None,
    )


def parse_answer(spec: QuestionSpec, line: str) -> Answer | TextEntry | None:
    """Parse an answer. Returns the text entry if the user must write something first, and None if the line is not an
    answer. Text typed for another purpose must not allow a call."""
    text = line.strip()
    if isinstance(spec.source, QuestionAsked):
        return _text_answer(spec, text)
    word = text.lower()
    if rule_match := _PROJECT_RULE_ANSWER.fullmatch(word):
        choice = find_typed_choice(rule_match[1], spec, is_for_project=True)
        return choice.answer if choice is not None and choice.is_lasting else None
    if (numbers := _CHANGES_ANSWER.fullmatch(word)) and _changes_question(spec) is not None:
        choice = find_typed_choice("c", spec)
        return choice.text_entry.parse_answer(numbers[1]) if choice is not None and choice.text_entry else None
    choice = find_typed_choice(_ANSWER_WORDS.get(word, word), spec)
    if choice is not None:
        return choice.text_entry if choice.answer is None else choice.answer
    denial_entry = _denial_text_entry(spec)
    if denial_entry is None or len(word) <= 1 or word.isdecimal() or parse_command(text) is not None:
        return None  # a typo or a command is not sent to the model
    return denial_entry.parse_answer(text[1:] if word.startswith("n ") else text)


def _text_answer(spec: QuestionSpec, text: str) -> str | None:
    """Convert typed numbers to the matching options, one per line. Several numbers are allowed only if the question
    accepts several choices. Other text is returned unchanged if the question accepts text."""
    numbers = re.split(r"[\s,]+", text) if spec.allows_multiple else [text]
    choices = [find_typed_choice(word, spec) for word in numbers]
    answers = [str(choice.answer) for choice in choices if choice is not None]
    if len(answers) == len(numbers):
        return "\n".join(answers)
    return text if spec.free_text is not None or not text else None


def answer_confirmation(answer: Answer) -> tuple[str, ...]:
    """Build the message that confirms an answer. Denials are reported where they take effect."""
    match answer:
        case Decision(verdict="allow", mode=mode) if mode:
            return (f"Allowed. The mode is now {mode}.",)
        case Decision(verdict="allow", refused_changes=refused) if refused:
            return (f"Allowed, without {pluralize(len(refused), 'change')}.",)
        case Decision(verdict="allow", rule=rule, scope=scope):
            return (
                f"Allowed. Won't ask again for {describe_rule(rule)} {SCOPE_TEXTS[scope]}." if rule else "Allowed.",
            )
        case PlanDecision(verdict="accept", mode=mode):
            return (f"Accepted. The mode is now {mode}.",)
        case PlanDecision(verdict="reject"):
            return ("Rejected.",)
        case _:
            return ()


def looks_like_answer(line: str) -> bool:
    """Whether a line looks more like an answer than like a message."""
    return len(line.strip()) <= 2


def diff_in_words(diff: str) -> tuple[str, ...]:
    """Describe a unified diff in words: each line with its kind and number."""
    lines: list[str] = []
    for file in parse_diff(sanitise(diff).expandtabs(4)):
        if file.name:
            lines.append(f"File {file.name}" + (f", {file.state}" if file.state != "changed" else ""))
        for part in file.parts:
            match part:
                case Remark(text=text):
                    lines.append(text)
                case Hunk(heading=heading, lines=changes):
                    lines += [f"In {heading}"] if heading else []
                    lines += [_diff_line_in_words(line) for line in changes]
    return tuple(lines)


def _diff_line_in_words(line: DiffLine) -> str:
    number = line.old_number if line.kind == "removed" else line.new_number
    return f"{line.kind} {number}: {line.text}" if number else f"{line.kind}: {line.text}"
