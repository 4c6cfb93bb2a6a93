"""Questions as lines to be read aloud, and what a line that was typed answers."""

import re

from agent.events import Decision, PermissionAsked, QuestionAsked
from agent.plan_events import PlanDecision, PlanSubmitted
from tools.outputs.extent import counted as so_many
from tui.commands import parse
from tui.plain.print_events import lines_of_text
from tui.text.sanitise import visible, visible_line
from tui.text.unified_diff import DiffLine, Hunk, Remark, counted, files_of
from tui.view.blocks import OpenQuestion
from tui.view.permission import changeable, dangers_told, dry_run_of, numbered, said_of_rule
from tui.view.plan import HEADLINE, choice_for, choices_in
from tui.view.titles import command_of, path_of

ANSWER = "Answer: "

_NUMBER = re.compile(r"(p?) *([0-9]{1,2})")
"""That of a rule, for the project behind a `p`."""


def lines_of_question(question: OpenQuestion) -> tuple[str, ...]:
    """All that there is to know before it is answered, and how it is answered."""
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
        case QuestionAsked(question=text, options=options):
            first, *rest = lines_of_text(text) or ("",)
            listed = (f"{number}: {visible_line(option)}" for number, option in enumerate(options, 1))
            return (f"Question: {first}", *rest, *listed, *how_to_answer(question))


def how_to_answer(question: OpenQuestion) -> tuple[str, ...]:
    """What may be typed, and what it means."""
    match question:
        case PermissionAsked():
            return _answers(question)
        case PlanSubmitted(modes=modes):
            numbered = [f"{choice.key}: {choice.says}." for choice in choices_in(question)[: len(modes)]]
            return (*numbered, "e: change the plan first. n: no. Other words: no, and the model is told them.")
        case QuestionAsked(options=options):
            how = "Type a number or your own words" if options else "Type your answer"
            return (f"{how}; an empty line leaves it unanswered.",)


def wants_to_change(question: OpenQuestion, line: str) -> bool:
    """Whether a line says that the call is to be changed first."""
    is_meant = line.strip().lower() in ("e", "edit")
    can_be = isinstance(question, PlanSubmitted) or (isinstance(question, PermissionAsked) and changeable(question))
    return is_meant and bool(can_be)


def answer_of(question: OpenQuestion, line: str) -> Decision | PlanDecision | str | None:
    """What a line answers; None when it is no answer: nothing that was typed for something else allows a call."""
    words = line.strip()
    match question:
        case PermissionAsked():
            return _decision(question, words)
        case PlanSubmitted():
            return _about_plan(question, words)
        case QuestionAsked(options=options):
            if words.isdecimal() and 0 < int(words) <= len(options):
                return options[int(words) - 1]
            return visible(words)


def answer_text(answer: Decision | PlanDecision | str) -> tuple[str, ...]:
    """What is said when an answer was taken; a denial is told where it takes effect."""
    match answer:
        case Decision(verdict="allow", rule=rule, kept=kept):
            where = "in this project, from now on" if kept == "project" else "always in this session"
            return (f"Allowed, and {where}: {said_of_rule(rule)}." if rule else "Allowed.",)
        case PlanDecision(verdict="accept", mode=mode):
            return (f"Accepted. The mode is now {mode}.",)
        case PlanDecision(verdict="reject"):
            return ("Rejected.",)
        case _:
            return ()


def is_short(line: str) -> bool:
    """Whether a line looks like an answer, not like a message."""
    return len(line.strip()) <= 2


def _decision(question: PermissionAsked, words: str) -> Decision | None:
    rules, word = dict(numbered(question)), words.lower()
    match word:
        case "":
            return None
        case "y" | "yes":
            return Decision("allow")
        case "n" | "no":
            return Decision("deny")
        case "a" | "always":
            return Decision("allow", rule=rules[1]) if 1 in rules else None
        case _ if typed := _NUMBER.fullmatch(word):
            rule, for_project = rules.get(int(typed[2])), bool(typed[1])
            if rule is None or (for_project and not question.rules_file):
                return None
            return Decision("allow", rule=rule, kept="project" if for_project else "session")
        case _ if len(word) == 1:
            return None  # a slip of the finger is not told to the model
        case _:
            note = words[1:] if word.startswith(("n ", "d ")) else words
            return Decision("deny", note=visible(note.strip()))


def _about_plan(question: PlanSubmitted, words: str) -> PlanDecision | None:
    """What a line decides about a plan. A command is none, since it was meant for something else."""
    word = words.lower()
    if not word or parse(words) is not None:
        return None
    if word in ("yes", "ok", "accept"):
        word = "y"
    choice = choice_for("n" if word == "no" else word, question)
    if choice is not None and choice.decision is not None:
        return choice.decision
    if len(word) == 1 or word.isdecimal():
        return None  # a slip of the finger is not told to the model
    note = words[1:] if word.startswith(("n ", "d ")) else words
    return PlanDecision("reject", note=visible(note.strip()))


def _headline(question: PermissionAsked) -> str:
    name, path = visible_line(question.name), visible_line(path_of(question.arguments))
    if question.host:
        return f"Question: may {name}, which runs this command, reach {visible_line(question.host)}?"
    if command_of(question.arguments):
        return f"Question: may {name} run this command?"
    if question.preview:
        added, removed = counted(question.preview)
        return (
            f"Question: may {name} change {path or 'these files'}? {so_many(added, 'line')} added, {removed} removed."
        )
    return f"Question: may {name} touch {path}?" if path else f"Question: may {name} run with these arguments?"


def _subject(question: PermissionAsked) -> tuple[str, ...]:
    """All that the call would do: the whole command line, the diff, or every argument."""
    command = command_of(question.arguments)
    if command:
        return lines_of_text(command)
    if question.preview:
        return diff_words(question.preview)
    return tuple(f"{visible_line(name)}: {visible(str(value))}" for name, value in question.arguments.items())


def diff_words(diff: str) -> tuple[str, ...]:
    """A unified diff with the kind of each line, and where it stands, in words before it."""
    lines: list[str] = []
    for file in files_of(visible(diff).expandtabs(4)):
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
    return tuple(f"Dangerous: {told}." for told in dangers_told(question))


def _reason(question: PermissionAsked) -> tuple[str, ...]:
    return tuple(f"Reason: {line}" for line in lines_of_text(question.reason)[:1]) + lines_of_text(question.reason)[1:]


def _answers(question: PermissionAsked) -> tuple[str, ...]:
    done = {one.rule: f"; it {dry_run_of(one)}" for one in question.tried if one.of}
    always = tuple(
        f"{number}: always in this session: {said_of_rule(offer)}{done.get(offer, '')}"
        for number, offer in numbered(question)
    )
    place = visible_line(question.rules_file)
    for_project = (f"p and such a number: in this project, from now on; kept in {place}",) if always and place else ()
    change = " e: change it first." if changeable(question) else ""
    return (f"y: yes, once. n: no.{change} Other words: no, and the model is told them.", *always, *for_project)
