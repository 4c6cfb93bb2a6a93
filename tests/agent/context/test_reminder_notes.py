"""What the model is told at the end of a request, and that it is told once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.context.reminder_notes import (
    Surroundings,
    announced_surroundings,
    correction,
    notes_for,
    with_announced,
)
from ebbtide.agent.messages import Conversation, Note, Text, User
from tests.agent.histories import texts

situations = st.builds(
    Surroundings,
    used=st.floats(0, 130),
    mode=st.sampled_from(["ask", "plan"]),
    attended=st.booleans(),
    date=st.sampled_from(["2026-01-02", "2026-01-03"]),
    branch=st.sampled_from(["", "main"]),
    todos=texts,
    scratchpad=texts,
    deferred=st.integers(0, 3),
    epoch=st.integers(0, 2),
)


def tell(now: Surroundings, told: Surroundings) -> list[str]:
    return [note.text for note in notes_for(now, told)]


@given(situations, situations)
def test_nothing_is_told_twice(now: Surroundings, told: Surroundings) -> None:
    assert notes_for(now, with_announced(now, told)) == ()
    assert notes_for(now, told) == notes_for(now, told)


def test_the_context_is_told_once_a_step_of_five_percent() -> None:
    told, shown = Surroundings(), []
    for used in (50, 79.9, 80, 83.4, 84.9, 85, 82, 86, 91):
        now = Surroundings(used=used)
        shown.append(tell(now, told))
        told = with_announced(now, told)
    assert [bool(texts) for texts in shown] == [False, False, True, False, False, True, False, False, True]
    assert tell(Surroundings(used=83.7), Surroundings()) == [
        "[Context: 83% used. You can call compact_context to free space before continuing with large operations.]"
    ]


def test_a_change_is_told_in_words() -> None:
    told = Surroundings(mode="ask", date="2026-01-02", branch="main", scratchpad="a", deferred=2)
    now = Surroundings(mode="plan", date="2026-01-03", branch="fix", deferred=3)
    assert tell(now, told) == [
        "[The permission mode is now `plan`: read, think and propose; change nothing, run only "
        "plain `ls`, `cat`, `rg`, `git diff` and the like, and hand in what you would change as a plan with "
        "`submit_plan`. It takes `plan`, Markdown; call it even if your list lacks it.]",
        "[The date is now 2026-01-03.]",
        "[The git branch is now fix.]",
        "[3 tools deferred to save context. Use tool_search to find them.]",
    ]


def test_a_rewrite_brings_back_what_it_took_away() -> None:
    now = Surroundings(used=81, todos="- test it", scratchpad="port 80", deferred=1, epoch=1)
    assert tell(now, replace(now, epoch=0)) == [
        "[Open todos:\n- test it]",
        "[Your notes:\nport 80]",
        "[1 tool deferred to save context. Use tool_search to find them.]",
        "[Context: 81% used. You can call compact_context to free space before continuing with large operations.]",
    ]
    assert tell(now, replace(now, todos="other", scratchpad="port 90")) == []


def filled(percent: int) -> Note:
    return Note("The window fills.", kind="context", name=f"{percent}")


@pytest.mark.parametrize(
    ("said", "used", "told"),
    [
        (None, 40, None),
        (87, 41.9, "[Context: 41% used now. "),
        (87, 88, None),
        (87, 83, "[Context: 83% used now. "),
        (84, 81, None),
        (41, 30, None),
    ],
)
def test_what_a_rewrite_has_made_untrue_is_put_right(said: int | None, used: float, told: str | None) -> None:
    parts = [filled(said)] if said else []
    conversation = Conversation((User((Text("go"), *parts)),))
    found = correction(conversation, used)
    assert (found.text[:24] if found else None) == (told[:24] if told else None)
    if found:
        assert correction(conversation.plus(User((found,))), used) is None
        assert announced_surroundings(conversation.plus(User((found,))), Surroundings()).used == int(used)


def test_what_was_told_is_found_again() -> None:
    start = Surroundings(date="2026-01-02")
    assert announced_surroundings(Conversation(), start) == start
    messages = (User((Text("a"), filled(81))), User((Text("b"), filled(86))))
    assert announced_surroundings(Conversation(messages), start) == replace(start, used=86.0)


@given(st.integers(0, 3), st.booleans(), st.sampled_from(["", "2 tools of mcp__a are gone", "1 tool of mcp__b is new"]))
def test_what_was_told_of_tools_is_found_again(deferred: int, hosted: bool, served: str) -> None:
    now = Surroundings(deferred=deferred, hosted=hosted and deferred > 0, served=served)
    before = User((Text("a"), *notes_for(Surroundings(deferred=7, hosted=True, served="1 of mcp__z"), Surroundings())))
    after = User((Text("b"), *notes_for(now, announced_surroundings(Conversation((before,)), Surroundings()))))
    assert announced_surroundings(Conversation((before, after)), Surroundings()) == now


def test_another_way_to_find_tools_is_told() -> None:
    told = Surroundings(deferred=3)
    assert tell(replace(told, hosted=True), told) == [
        "[3 tools deferred to save context. Search for them, and call what is found by its name.]"
    ]
