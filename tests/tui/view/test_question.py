"""What each key does with a question, and how many lines each part of it gets."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.events.permissions import PermissionAsked, QuestionAsked
from ebbtide.tui.view.permission import build_call_question
from ebbtide.tui.view.question import (
    AnswerState,
    KeyEffect,
    QuestionSpec,
    TextEntry,
    decide_key_effect,
    is_list_key,
    key_effect_in_text,
)
from ebbtide.tui.view.question_lines import PanelPart, allot_lines, question_key_hints
from ebbtide.tui.view.questions import build_question_spec

QUESTION = PermissionAsked(
    "q", "1", "bash", {"command": "pytest -x"}, "", offers=("bash(=pytest -x)", "bash(pytest)"), rules_file="rules.json"
)
ONE = build_question_spec(QuestionAsked("q", "Which?", ("red", "blue")))
SEVERAL = build_question_spec(QuestionAsked("q", "Which?", ("red", "blue"), several=True))
WORDS = build_question_spec(QuestionAsked("q", "What?", ()))


@given(st.integers(1, 80), st.dictionaries(st.sampled_from(get_args(PanelPart)), st.integers(0, 300)))
def test_parts_get_no_more_lines_than_there_are_and_than_they_want(lines: int, wanted: dict[PanelPart, int]) -> None:
    shares = allot_lines(lines, wanted)
    assert sum(shares.values()) <= lines
    assert all(count <= wanted.get(part, 0) for part, count in shares.items())
    assert shares["list"] or not wanted.get("list") or lines == 1


@pytest.mark.parametrize(
    ("key", "did", "at"),
    [
        ("y", "choose", 0),
        ("1", "choose", 0),
        ("n", "choose", 3),
        ("4", "choose", 3),
        ("2", "move", 1),
        ("a", "move", 1),
        ("3", "choose", 2),
        ("enter", "choose", 0),
        ("down", "move", 1),
        ("up", "move", 3),
        ("5", "text", 0),
        ("0", "text", 0),
        ("²", "text", 0),
        ("x", "text", 0),
        ("space", "text", 0),
        ("f5", "none", 0),
    ],
)
def test_a_key_alone_keeps_no_rule(key: str, did: KeyEffect, at: int) -> None:
    assert decide_key_effect(key, build_call_question(QUESTION), AnswerState()) == (did, AnswerState(at))


@pytest.mark.parametrize(
    ("key", "spec", "is_whole", "did", "at"),
    [
        ("down", ONE, False, "move", 1),
        ("up", ONE, False, "move", 1),
        ("home", ONE, False, "none", 0),
        ("home", ONE, True, "scroll subject", 0),
        ("m", ONE, False, "text", 0),
        ("m", ONE, True, "scroll subject", 0),
        ("space", ONE, True, "scroll subject", 0),
        ("space", SEVERAL, True, "move", 0),
        ("ctrl+o", ONE, True, "toggle subject", 0),
        ("escape", ONE, True, "stop", 0),
    ],
)
def test_what_is_seen_whole_is_read_by_keys(
    key: str, spec: QuestionSpec, is_whole: bool, did: KeyEffect, at: int
) -> None:
    result, marked = decide_key_effect(key, spec, AnswerState(), is_expanded=is_whole)
    assert (result, marked.marked_index) == (did, at)
    assert is_list_key(key, spec, AnswerState(), is_expanded=is_whole) == (did not in ("text", "none"))


def test_behind_the_last_choice_is_the_line_for_words() -> None:
    assert decide_key_effect("down", ONE, AnswerState(1)) == ("focus text", AnswerState(1))
    assert decide_key_effect("down", build_call_question(QUESTION), AnswerState(3)) == ("move", AnswerState(0))


@pytest.mark.parametrize(
    ("key", "spec", "is_writing", "is_empty", "did", "at"),
    [
        ("escape", ONE, True, False, "leave text", 1),
        ("escape", ONE, False, False, "clear text", 1),
        ("escape", ONE, False, True, "stop", 1),
        ("escape", WORDS, False, False, "stop", 1),
        ("up", ONE, False, False, "move", 1),
        ("down", ONE, False, False, "move", 0),
        ("down", ONE, True, False, "none", 1),
        ("up", WORDS, False, True, "none", 1),
        ("ctrl+o", ONE, True, True, "toggle subject", 1),
        ("pagedown", ONE, False, True, "scroll subject", 1),
        ("home", ONE, False, True, "none", 1),
        ("x", ONE, False, True, "none", 1),
    ],
)
def test_a_line_of_words_leaves_few_keys_to_the_question(
    key: str, spec: QuestionSpec, is_writing: bool, is_empty: bool, did: KeyEffect, at: int
) -> None:
    found = key_effect_in_text(
        key, spec, AnswerState(1), is_entering_text=is_writing, is_empty=is_empty, is_expanded=True
    )
    assert found == (did, AnswerState(at))


@pytest.mark.parametrize(
    ("spec", "marked", "writing", "is_whole", "hidden", "hints"),
    [
        (ONE, AnswerState(), None, False, 0, "Enter select  Esc stop the turn"),
        (ONE, AnswerState(), None, False, 1, "Enter select  Esc stop the turn  Ctrl-O show one more line"),
        (
            SEVERAL,
            AnswerState(),
            None,
            False,
            1_200,
            "Space toggle  Enter send  Esc stop the turn  Ctrl-O show 1,200 more lines",
        ),
        (ONE, AnswerState(), None, True, 9, "Enter select  Esc stop the turn  Ctrl-O collapse  PgUp, PgDn scroll"),
        (
            build_call_question(QUESTION),
            AnswerState(),
            None,
            False,
            0,
            "Enter select  Esc stop the turn  r more rules  p remember for this project",
        ),
        (
            build_call_question(QUESTION),
            AnswerState(is_for_project=True, lists_extras=True),
            None,
            False,
            0,
            "Enter select  Esc stop the turn  r fewer rules  p remember for this session",
        ),
        (ONE, AnswerState(), TextEntry("text", str), False, 3, "Enter send  Esc back"),
        (ONE, AnswerState(), TextEntry("command", str), False, 3, "Enter run  Alt-Enter new line  Esc back"),
    ],
)
def test_the_keys_that_mean_something_now_are_named(
    spec: QuestionSpec, marked: AnswerState, writing: TextEntry | None, is_whole: bool, hidden: int, hints: str
) -> None:
    assert (
        question_key_hints(spec, marked, writing, is_unfocused=False, is_expanded=is_whole, hidden_line_count=hidden)
        == hints
    )
    assert (
        question_key_hints(spec, marked, writing, is_unfocused=True, is_expanded=is_whole, hidden_line_count=0)
        == "Tab back to the question"
    )


def test_further_rules_are_listed_and_the_first_of_them_marked() -> None:
    spec = build_call_question(QUESTION)
    assert decide_key_effect("r", spec, AnswerState()) == ("relist", AnswerState(4, lists_extras=True))
    assert decide_key_effect("5", spec, AnswerState(lists_extras=True))[1].marked_index == 4
    assert decide_key_effect("r", spec, AnswerState(4, lists_extras=True)) == ("relist", AnswerState(3))
    assert decide_key_effect("p", spec, AnswerState(1)) == ("relist", AnswerState(1, is_for_project=True))
    assert decide_key_effect("r", ONE, AnswerState()) == ("text", AnswerState())
