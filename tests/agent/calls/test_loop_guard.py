"""Calls that are made again and again: what the model is told, and how the turn ends."""

from typing import Any

from ebbtide.agent.calls.loop_guard import CONTINUE_OPTION, STOP_OPTION, LoopGuard
from ebbtide.agent.events.permissions import QuestionAsked
from ebbtide.agent.events.session import TurnFinished
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from tests.kit.session import Home, bash, call, calls, finished, first_turn, turn_in_which

SAME = "[This call has returned the same output "
LOOK = calls(call("glob", pattern="*.txt"))


async def told_in(home: Home, *replies: dict[str, Any]) -> tuple[list[bool], object]:
    """Of each call whether the model was told that it repeats itself, and how the turn ended."""
    _, events = await first_turn(
        home.session(ScriptedProvider.from_replies(*replies, {"text": "done"}), loop_guard=LoopGuard())
    )
    return [SAME in text for _, _, text in finished(events)], events[-1]


async def test_the_third_call_that_gives_the_same_is_told_and_the_fifth_ends_the_turn(home: Home) -> None:
    (home.root / "a.txt").write_text("a\n")
    warned, end = await told_in(home, *[LOOK] * 6)
    assert warned == [False, False, True, True, True]
    assert end == TurnFinished("repeated_calls", "")


async def test_two_calls_in_turn_are_a_circle_too(home: Home) -> None:
    warned, end = await told_in(home, *[calls(bash("false")), calls(call("edit", path="a", old="x", new="y"))] * 5)
    assert warned == [False] * 4 + [True] * 5
    assert end == TurnFinished("repeated_calls", "")


async def test_a_command_that_fails_again_after_each_edit_is_no_circle(home: Home) -> None:
    (home.root / "a.txt").write_text("0\n")
    edits = [calls(call("write", path="a.txt", content=f"{number}\n"), bash("false")) for number in range(1, 8)]
    warned, end = await told_in(home, calls(call("read", path="a.txt")), *edits)
    assert (warned, end) == ([False] * 15, TurnFinished("answered", "done"))


async def test_what_waits_may_be_done_again_and_what_gives_something_else_is_no_repeat(home: Home) -> None:
    grows = [calls(bash("echo a >> log; wc -l < log"))] * 6
    warned, end = await told_in(home, *[calls(bash("sleep 0; true"))] * 6, *grows)
    assert (warned, end) == ([False] * 12, TurnFinished("answered", "done"))


async def test_a_new_turn_begins_to_count_anew(home: Home) -> None:
    model = ScriptedProvider.from_replies(LOOK, LOOK, {"text": "one"}, LOOK, LOOK, {"text": "two"})
    session, _ = await first_turn(home.session(model, loop_guard=LoopGuard()))
    events = [event async for event in session.send("more")]
    assert [SAME in text for _, _, text in finished(events)] == [False, False]


async def test_a_user_who_is_there_says_whether_it_goes_on(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies(*[LOOK] * 10), loop_guard=LoopGuard())
    answers = iter((CONTINUE_OPTION, STOP_OPTION))
    events = await turn_in_which(session, QuestionAsked, lambda asked: session.answer(asked.id, next(answers)))
    assert [event.question for event in events if isinstance(event, QuestionAsked)] == [
        "The model called `glob` 5 times, with the same outcome."
    ] * 2
    assert (len(finished(events)), events[-1]) == (10, TurnFinished("repeated_calls", ""))
