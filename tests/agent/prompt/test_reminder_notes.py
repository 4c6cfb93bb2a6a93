"""What the model is told at the end of a request, and that it is told once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Conversation, Note, Text, User
from ebbtide.agent.prompt.reminder_notes import (
    ReminderFacts,
    announced_facts,
    choose_due_notes,
    context_correction_note,
    facts_after_notes,
)
from tests.kit.conversations import texts

situations = st.builds(
    ReminderFacts,
    used_percent=st.floats(0, 130),
    mode=st.sampled_from(["ask", "plan"]),
    is_interactive=st.booleans(),
    date=st.sampled_from(["2026-01-02", "2026-01-03"]),
    branch=st.sampled_from(["", "main"]),
    todos=texts,
    scratchpad=texts,
    deferred_count=st.integers(0, 3),
    rewrite_count=st.integers(0, 2),
)


def tell(now: ReminderFacts, before: ReminderFacts) -> list[str]:
    return [note.text for note in choose_due_notes(now, before)]


@given(situations, situations)
def test_nothing_is_told_twice(now: ReminderFacts, before: ReminderFacts) -> None:
    assert choose_due_notes(now, facts_after_notes(now, before)) == ()
    assert choose_due_notes(now, before) == choose_due_notes(now, before)


def test_the_context_is_told_once_a_step_of_five_percent() -> None:
    announced, notes = ReminderFacts(), []
    for used in (50, 79.9, 80, 83.4, 84.9, 85, 82, 86, 91):
        now = ReminderFacts(used_percent=used)
        notes.append(tell(now, announced))
        announced = facts_after_notes(now, announced)
    assert [bool(texts) for texts in notes] == [False, False, True, False, False, True, False, False, True]
    assert tell(ReminderFacts(used_percent=83.7), ReminderFacts()) == [
        "[Context: 83% used. You can call compact_context to free space before continuing with large operations.]"
    ]


def test_a_change_is_told_in_words() -> None:
    before = ReminderFacts(mode="ask", date="2026-01-02", branch="main", scratchpad="a", deferred_count=2)
    now = ReminderFacts(mode="plan", date="2026-01-03", branch="fix", deferred_count=3)
    assert tell(now, before) == [
        "[The permission mode is now `plan`: read, think and propose; change nothing, run only "
        "plain `ls`, `cat`, `rg`, `git diff` and the like, and submit your proposed changes as a plan with "
        "`submit_plan`. Pass the plan as Markdown in `plan`; call it even if it is not in your tool list.]",
        "[The date is now 2026-01-03.]",
        "[The git branch is now fix.]",
        "[3 tools deferred to save context. Use tool_search to find them.]",
    ]


def test_a_rewrite_brings_back_what_it_took_away() -> None:
    now = ReminderFacts(used_percent=81, todos="- test it", scratchpad="port 80", deferred_count=1, rewrite_count=1)
    assert tell(now, replace(now, rewrite_count=0)) == [
        "[Open todos:\n- test it]",
        "[Your notes:\nport 80]",
        "[1 tool deferred to save context. Use tool_search to find them.]",
        "[Context: 81% used. You can call compact_context to free space before continuing with large operations.]",
    ]
    assert tell(now, replace(now, todos="other", scratchpad="port 90")) == []


def filled(percent: int) -> Note:
    return Note("The window fills.", kind="context", name=f"{percent}")


@pytest.mark.parametrize(
    ("percent", "used", "expected"),
    [
        (None, 40, None),
        (87, 41.9, "[Context: 41% used now. "),
        (87, 88, None),
        (87, 83, "[Context: 83% used now. "),
        (84, 81, None),
        (41, 30, None),
    ],
)
def test_what_a_rewrite_has_made_untrue_is_put_right(percent: int | None, used: float, expected: str | None) -> None:
    parts = [filled(percent)] if percent else []
    conversation = Conversation((User((Text("go"), *parts)),))
    found = context_correction_note(conversation, used)
    assert (found.text[:24] if found else None) == (expected[:24] if expected else None)
    if found:
        assert context_correction_note(conversation.plus(User((found,))), used) is None
        assert announced_facts(conversation.plus(User((found,))), ReminderFacts()).used_percent == int(used)


def test_what_was_told_is_found_again() -> None:
    start = ReminderFacts(date="2026-01-02")
    assert announced_facts(Conversation(), start) == start
    messages = (User((Text("a"), filled(81))), User((Text("b"), filled(86))))
    assert announced_facts(Conversation(messages), start) == replace(start, used_percent=86.0)


@given(st.integers(0, 3), st.booleans(), st.sampled_from(["", "2 tools of mcp__a are gone", "1 tool of mcp__b is new"]))
def test_what_was_told_of_tools_is_found_again(deferred: int, hosted: bool, served: str) -> None:
    now = ReminderFacts(deferred_count=deferred, has_hosted_search=hosted and deferred > 0, server_tool_changes=served)
    before = User(
        (
            Text("a"),
            *choose_due_notes(
                ReminderFacts(deferred_count=7, has_hosted_search=True, server_tool_changes="1 of mcp__z"),
                ReminderFacts(),
            ),
        )
    )
    after = User((Text("b"), *choose_due_notes(now, announced_facts(Conversation((before,)), ReminderFacts()))))
    assert announced_facts(Conversation((before, after)), ReminderFacts()) == now


def test_another_way_to_find_tools_is_told() -> None:
    before = ReminderFacts(deferred_count=3)
    assert tell(replace(before, has_hosted_search=True), before) == [
        "[3 tools deferred to save context. Search for them, and call the tools you find by name.]"
    ]
