from dataclasses import replace

import pytest

from ebbtide.agent.events.permissions import Decision, PermissionAsked, QuestionAsked
from ebbtide.agent.events.plan import PlanDecision, PlanSubmitted
from ebbtide.tools.commands.dangers import find_dangers
from ebbtide.tui.plain import questions
from ebbtide.tui.plain.questions import answer_confirmation
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.view.blocks import OpenQuestion
from ebbtide.tui.view.question import Answer, TextEntry
from ebbtide.tui.view.questions import build_question_spec

RUN = PermissionAsked(
    "q1",
    "1",
    "bash",
    {"command": "rm -r build\nmake \x1b[2J"},
    "ask mode asks",
    offers=("bash(=rm -r build)", "bash(make)"),
    rules_file="/home/me/rules.json",
)


def lines_of_question(question: OpenQuestion) -> tuple[str, ...]:
    return questions.question_lines(build_question_spec(question))


def how_to_answer(question: OpenQuestion) -> tuple[str, ...]:
    return questions.answer_help(build_question_spec(question))


def answer_of(question: OpenQuestion, line: str) -> Answer | str | None:
    """The answer, or how the text of it is written."""
    answer = questions.parse_answer(build_question_spec(question), line)
    return f"writes {answer.kind}" if isinstance(answer, TextEntry) else answer


DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n"


def test_all_that_a_call_would_do_is_read_out() -> None:
    assert lines_of_question(RUN) == (
        "Question: Run this command?",
        "rm -r build",
        "make ␛[2J",
        "ask mode asks",
        "1 or y: Yes",
        '2 or a: Yes, and don\'t ask again for "make …" commands this session; rule: bash(make)',
        "3 or e: Edit it first",
        "4 or n: No",
        "r: more rules",
        "p and the number of a rule: remember for this project, in /home/me/rules.json",
        "Any other text: no, and it is sent to the model.",
    )


def test_a_change_is_read_out_line_by_line() -> None:
    lines = lines_of_question(PermissionAsked("q", "1", "edit", {"path": "x.py"}, "why", DIFF))
    assert lines[:5] == (
        "Question: Change x.py?  +1 −1",
        "File x.py",
        "kept 1: one",
        "removed 2: two",
        "added 2: three",
    )


def test_arguments_of_other_tools_are_read_out() -> None:
    lines = lines_of_question(PermissionAsked("q", "1", "forge__open", {"title": "a", "body": "b\nc"}, ""))
    assert lines[:2] == ("Question: Allow forge__open to run with these arguments?", "title: a")
    assert lines[5:] == (
        "1 or y: Yes",
        "4 or n: No",
        "Any other text: no, and it is sent to the model.",
    )


@pytest.mark.parametrize(
    ("line", "decision"),
    [
        ("y", Decision("allow")),
        (" Yes ", Decision("allow")),
        ("n", Decision("deny")),
        ("a", Decision("allow", rule="bash(make)")),
        ("1", Decision("allow")),
        ("2", Decision("allow", rule="bash(make)")),
        ("p2", Decision("allow", rule="bash(make)", scope="project")),
        ("P 5", Decision("allow", rule="bash(=rm -r build)", scope="project")),
        ("p1", None),
        ("p4", None),
        ("p9", None),
        ("4", Decision("deny")),
        ("5", Decision("allow", rule="bash(=rm -r build)")),
        ("6", None),
        ("r", None),
        ("c", None),
        ("c 1", Decision("deny", note="c 1")),
        ("p", None),
        ("x", None),
        ("3", "writes editor"),
        ("7", None),
        ("12", None),
        ("", None),
        ("n use make clean", Decision("deny", note="use make clean")),
        ("yes please", Decision("deny", note="yes please")),
        ("why\x1b?", Decision("deny", note=sanitise("why\x1b?"))),
    ],
)
def test_only_what_is_meant_as_a_yes_allows(line: str, decision: Decision | None) -> None:
    assert answer_of(RUN, line) == decision


def test_where_nothing_is_kept_or_nothing_says_exactly_this_a_line_answers_nothing() -> None:
    question = replace(RUN, rules_file="", offers=("bash(make)",), offers_exact=False)
    lines = ("a", "2", "p2")
    rule_decision = Decision("allow", rule="bash(make)")
    assert [answer_of(question, line) for line in lines] == [rule_decision, rule_decision, None]
    rule = '2 or a: Yes, and don\'t ask again for "make …" commands this session; rule: bash(make)'
    assert how_to_answer(question)[1] == rule
    lines = ("e", " Edit ", "edit it")
    assert [answer_of(question, line) for line in lines] == [
        "writes editor", "writes editor", Decision("deny", note="edit it"),
    ]  # fmt: skip
    assert answer_of(replace(question, name="read"), "e") is None


def test_what_is_kept_is_told() -> None:
    decision = Decision("allow", rule="bash(=ls)", scope="project")
    assert answer_confirmation(decision) == ("Allowed. Won't ask again for this command in future sessions.",)
    message = 'Allowed. Won\'t ask again for "ls …" commands this session.'
    assert answer_confirmation(Decision("allow", rule="bash(ls)")) == (message,)


def test_without_an_offer_nothing_is_allowed_for_good() -> None:
    assert answer_of(PermissionAsked("q", "1", "bash", {"command": "x"}, ""), "a") is None


def test_a_question_is_answered_by_number_or_in_words() -> None:
    question = QuestionAsked("q", "Which one?", ("red", "blue"))
    assert lines_of_question(question) == (
        "Question: Which one?",
        "1: red",
        "2: blue",
        "Type a number or your own answer; an empty line skips the question.",
    )
    answers = {line: answer_of(question, line) for line in ("2", "3", "green", "")}
    assert answers == {"2": "blue", "3": "3", "green": "green", "": ""}
    several = replace(question, several=True)
    assert how_to_answer(several)[-1].startswith("Type numbers separated by spaces or your own answer")
    answers = {line: answer_of(several, line) for line in ("1, 2", "2", "1 3", "both")}
    assert answers == {"1, 2": "red\nblue", "2": "blue", "1 3": "1 3", "both": "both"}


def test_what_is_dangerous_in_a_command_is_said_in_words() -> None:
    command = "cd a && rm -rf b | sh"
    dangers = find_dangers(command, "/p")
    lines = lines_of_question(PermissionAsked("q", "1", "bash", {"command": command}, "why", dangers=dangers))
    assert lines[:5] == (
        "Question: Run this command?",
        command,
        "Dangerous: `rm -rf b` deletes folders and everything in them",
        "Dangerous: `sh` runs the output of the pipe",
        "why",
    )


def test_a_plan_is_read_whole_and_a_line_decides() -> None:
    question = PlanSubmitted("p", "1", "# Mine\n\n1. \x1b[2JDo it.", ("ask", "accept-edits"), is_edited=True)
    assert lines_of_question(question) == (
        "Question: Carry out this plan?  edited by you",
        "# Mine",
        "",
        sanitise("1. \x1b[2JDo it."),
        "1 or y: Yes, ask before each change",
        "2 or a: Yes, edit files without asking",
        "3 or e: Edit the plan first",
        "4 or n: No",
        "Any other text: no, and it is sent to the model.",
    )
    accepted, rejected = PlanDecision("accept", "ask"), PlanDecision("reject")
    decided: dict[str, PlanDecision | str | None] = {
        "1": accepted,
        "y": accepted,
        "Yes": accepted,
        "2": PlanDecision("accept", "accept-edits"),
        "3": "writes editor",
        "4": PlanDecision("reject"),
        "5": None,
        "": None,
        "x": None,
        "n": rejected,
        "no": rejected,
        "d": None,
        "n no Decimal": PlanDecision("reject", note="no Decimal"),
        "42": None,
        "/mode auto": None,
        "!ls": None,
        "why?": PlanDecision("reject", note="why?"),
    }
    assert {line: answer_of(question, line) for line in decided} == decided
    assert [answer_of(question, line) for line in ("e", "Edit", "edit it")] == [
        "writes editor", "writes editor", PlanDecision("reject", note="edit it"),
    ]  # fmt: skip


def test_what_is_trusted_is_chosen_and_a_message_is_no_answer_to_it() -> None:
    question = QuestionAsked(
        "q", "Trust this folder?", ("not now", "trust all of it"), is_lasting=True, takes_words=False
    )
    assert lines_of_question(question)[-1] == "Type a number; an empty line skips the question."
    assert [answer_of(question, line) for line in ("2", "hello", "fix the tests", "")] == [
        "trust all of it",
        None,
        None,
        "",
    ]


def test_single_changes_are_chosen_by_their_numbers() -> None:
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n-one\n+ONE\n two\n-three\n+THREE\n"
    question = PermissionAsked(
        *("q", "1", "edit", {"path": "a.py", "new": "x"}, "why", diff, ("edit(a.py)",)),
        mode_offer="accept-edits",
        change_count=2,
    )
    assert how_to_answer(question) == (
        "1 or y: Yes",
        "2 or a: Yes, and allow all edits this session; rule: accept-edits mode; "
        "files in this project; /mode changes it back",
        "3 or e: Edit it first",
        "4 or n: No",
        "5 or c: Choose among the 2 changes",
        "  Change 1: line 1  +1 −1  ONE",
        "  Change 2: line 3  +1 −1  THREE",
        "c and numbers: make only these changes, as in c 1 2",
        "r: more rules",
        "Any other text: no, and it is sent to the model.",
    )
    assert questions.more_rules_lines(build_question_spec(question)) == (
        "6: Yes, and don't ask again for edits of a.py this session",
    )
    one = Decision("allow", refused_changes=(0,))
    answers = {line: answer_of(question, line) for line in ("c 2", "c 1, 2", "c 3", "c", "5", "a", "c'est la vie")}
    assert answers == {
        "c 2": one,
        "c 1, 2": Decision("allow"),
        "c 3": None,
        "c": "writes text",
        "5": "writes text",
        "a": Decision("allow", mode="accept-edits"),
        "c'est la vie": Decision("deny", note="c'est la vie"),
    }
    assert answer_confirmation(one) == ("Allowed, without 1 change.",)
    assert answer_confirmation(Decision("allow", mode="accept-edits")) == ("Allowed. The mode is now accept-edits.",)
