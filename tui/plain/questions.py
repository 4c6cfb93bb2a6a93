"""Questions as lines, and the meaning of a typed answer."""

import re
from collections.abc import Mapping
from typing import Literal

from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tools.outputs.extent import pluralize as so_many
from ebbtide.tui.commands import parse
from ebbtide.tui.plain.print_events import lines_of_text
from ebbtide.tui.text.sanitise import sanitised, sanitised_line
from ebbtide.tui.text.unified_diff import DiffLine, Hunk, Remark, count_changes, files_of
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.call_titles import command_of, path_of
from ebbtide.tui.view.permission import SCOPES, danger_texts
from ebbtide.tui.view.plan import HEADLINE
from ebbtide.tui.view.question import Choice, typed_choice
from ebbtide.tui.view.questions import panel_of
from ebbtide.tui.view.rule_wording import words_of_rule

ANSWER = "Answer: "

_FOR_PROJECT = re.compile(r"p *([0-9]{1,2})")
"""The number of a rule to store for the project."""
_WORDS: Mapping[str, str] = {"yes": "y", "ok": "y", "accept": "y", "no": "n", "always": "a"}


def lines_of_question(question: OpenQuestion) -> tuple[str, ...]:
    """The question with its subject, reason and possible answers."""
    match question:
        case PermissionAsked():
            return (
                _headline(question),
                *_subject(question),
                *_dangers(question),
                *_reason(question),
                *how_to_answer(question),
            )
        case PlanSubmitted(plan=plan, is_edited=is_edited):
            changed = ("You have changed it. It is now:",) if is_edited else ()
            return (f"Question: {HEADLINE}", *changed, *lines_of_text(plan), *how_to_answer(question))
        case QuestionAsked(question=text):
            first, *rest = lines_of_text(text) or ("",)
            return (f"Question: {first}", *rest, *how_to_answer(question))


def how_to_answer(question: OpenQuestion) -> tuple[str, ...]:
    """The possible answers: the numbers and letters of the question panel."""
    listed = tuple(_choice(number, choice) for number, choice in enumerate(panel_of(question).choices, 1))
    match question:
        case PermissionAsked(rules_file=file, offers=offers):
            place = sanitised_line(file)
            rules = (f"p and such a number: in this project, from now on; kept in {place}",) if offers and place else ()
            return (*listed, *rules, "Other words: no, and the model is told them.")
        case PlanSubmitted():
            return (*listed, "Other words: no, and the model is told them.")
        case QuestionAsked(options=options):
            number = "numbers with blanks in between" if question.several else "a number"
            own = " or your own words" if question.takes_words else ""
            how = f"Type {number}{own}" if options else "Type your answer"
            return (*listed, f"{how}; an empty line leaves it unanswered.")


def _choice(number: int, choice: Choice) -> str:
    letter = f" or {choice.key}" if choice.key else ""
    rule = f"; the rule is {sanitised_line(choice.rule_text)}" if choice.is_lasting and choice.rule_text else ""
    more = f"; it {sanitised_line(choice.more)}" if choice.more else ""
    return f"{number}{letter}: {sanitised_line(choice.label)}{rule}{more}"


def wants_to_change(question: OpenQuestion, line: str) -> bool:
    """Whether a line asks to edit the call first."""
    choice = typed_choice("e" if line.strip().lower() == "edit" else line, panel_of(question))
    return choice is not None and choice.writes is not None and choice.writes.how != "words"


def answer_of(question: OpenQuestion, line: str) -> Decision | PlanDecision | str | None:
    """The answer in a line; None if it is none: text typed for something else must not allow a call."""
    words = line.strip()
    if isinstance(question, QuestionAsked):
        return _answer_in_words(question, words)
    chosen = _decision_of(question, words)
    if isinstance(chosen, Decision | PlanDecision):
        return chosen
    word = words.lower()
    if len(word) <= 1 or word.isdecimal() or chosen == "nothing":
        return None  # a slip of the finger is not told to the model
    if isinstance(question, PlanSubmitted) and parse(words) is not None:
        return None  # a command was meant for something else
    note = (words[1:] if word.startswith(("n ", "d ")) else words).strip()
    return Decision("deny", note=note) if isinstance(question, PermissionAsked) else PlanDecision("reject", note=note)


def _answer_in_words(question: QuestionAsked, words: str) -> str | None:
    """The option with that number, or all options if several can be chosen; else the text, if allowed as an answer."""
    panel = panel_of(question)
    typed = re.split(r"[\s,]+", words) if question.several else [words]
    choices = [typed_choice(word, panel) for word in typed]
    answers = [str(choice.answer) for choice in choices if choice is not None]
    if len(answers) == len(typed):
        return "\n".join(answers)
    return words if question.takes_words or not words else None


def _decision_of(
    question: PermissionAsked | PlanSubmitted, words: str
) -> Decision | PlanDecision | Literal["nothing"] | None:
    """The decision for a number, letter or word; None if the line is none of them."""
    word, panel = words.lower(), panel_of(question)
    typed = _FOR_PROJECT.fullmatch(word)
    if typed is not None and isinstance(question, PermissionAsked):
        choice = typed_choice(typed[1], panel, for_project=True) if panel.for_project else None
        return (
            choice.answer
            if choice is not None and isinstance(choice.answer, Decision) and choice.is_lasting
            else "nothing"
        )
    choice = typed_choice(_WORDS.get(word, word), panel)
    return choice.answer if choice is not None and isinstance(choice.answer, Decision | PlanDecision) else None


def answer_text(answer: Decision | PlanDecision | str) -> tuple[str, ...]:
    """The message after an answer. A denial is reported where it takes effect."""
    match answer:
        case Decision(verdict="allow", rule=rule, kept=kept):
            return (f"Allowed, and {words_of_rule(rule)}, {SCOPES[kept]}." if rule else "Allowed.",)
        case PlanDecision(verdict="accept", mode=mode):
            return (f"Accepted. The mode is now {mode}.",)
        case PlanDecision(verdict="reject"):
            return ("Rejected.",)
        case _:
            return ()


def is_short(line: str) -> bool:
    """Whether a line looks like an answer, not like a message."""
    return len(line.strip()) <= 2


def _headline(question: PermissionAsked) -> str:
    name, path = sanitised_line(question.name), sanitised_line(path_of(question.arguments))
    if question.host:
        return f"Question: may {name}, which runs this command, reach {sanitised_line(question.host)}?"
    if command_of(question.arguments):
        return f"Question: may {name} run this command?"
    if question.preview:
        added, removed = count_changes(question.preview)
        return (
            f"Question: may {name} change {path or 'these files'}? {so_many(added, 'line')} added, {removed} removed."
        )
    return f"Question: may {name} touch {path}?" if path else f"Question: may {name} run with these arguments?"


def _subject(question: PermissionAsked) -> tuple[str, ...]:
    """What the call would do: the command line, the diff, or all arguments."""
    command = command_of(question.arguments)
    if command:
        return lines_of_text(command)
    if question.preview:
        return diff_words(question.preview)
    return tuple(f"{sanitised_line(name)}: {sanitised(str(value))}" for name, value in question.arguments.items())


def diff_words(diff: str) -> tuple[str, ...]:
    """A unified diff in words: each line with its kind and number."""
    lines: list[str] = []
    for file in files_of(sanitised(diff).expandtabs(4)):
        if file.name:
            lines.append(f"File {file.name}" + (f", {file.state}" if file.state != "changed" else ""))
        for part in file.parts:
            match part:
                case Remark(text=text):
                    lines.append(text)
                case Hunk(heading=heading, lines=changes):
                    lines += [f"In {heading}"] if heading else []
                    lines += [_line_words(line) for line in changes]
    return tuple(lines)


def _line_words(line: DiffLine) -> str:
    number = line.old if line.kind == "removed" else line.new
    return f"{line.kind} {number}: {line.text}" if number else f"{line.kind}: {line.text}"


def _dangers(question: PermissionAsked) -> tuple[str, ...]:
    return tuple(f"Dangerous: {told}." for told in danger_texts(question))


def _reason(question: PermissionAsked) -> tuple[str, ...]:
    return tuple(f"Reason: {line}" for line in lines_of_text(question.reason)[:1]) + lines_of_text(question.reason)[1:]
