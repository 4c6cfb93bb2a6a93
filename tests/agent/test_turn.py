"""A session that ends while the user is asked about a call, and what becomes of the calls of that step."""

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from ebbtide.agent.events.permissions import CallDenied, Decision, PermissionAsked
from ebbtide.agent.events.session import Event, TurnFinished
from ebbtide.agent.messages import ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.records.call_progress import CALL_INTERRUPTED_TEXT, NOT_APPROVED_TEXT, NOT_BEGUN_TEXT
from ebbtide.agent.session import Session
from tests.kit.polling import until
from tests.kit.session import Home, bash

STEP = {"text": "I work.", "calls": [bash("echo one >> log"), bash("echo two >> log"), bash("echo three >> log")]}
RULES: dict[str, Any] = {"mode": "ask"}


async def left_at(session: Session, question: int) -> None:
    """The turn, left at its n-th question as the end of the program leaves it; those before are answered with yes."""
    asked = 0
    async for event in session.send("go"):
        if isinstance(event, PermissionAsked):
            asked += 1
            if asked == question:
                break
            session.answer(event.id, Decision("allow"))
    await session.close()


async def answered(session: Session, *answers: Decision) -> list[Event]:
    """The rest of the turn, in which questions are answered in order."""
    left, events = list(answers), list[Event]()
    async for event in session.resume_turn():
        if isinstance(event, PermissionAsked):
            session.answer(event.id, left.pop(0))
        events.append(event)
    return events


def outputs(session: Session) -> list[tuple[str, str]]:
    return [
        (output.status, output.text.strip())
        for message in session.history.messages
        if isinstance(message, User)
        for output in message.outputs
    ]


async def test_the_question_is_asked_again_and_nothing_is_run_twice(home: Home) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 2)
    assert (home.root / "log").read_text() == "one\n"
    again = await home.attended(ScriptedProvider.from_replies({"text": "Done."}), resume=True, ask_again=True, **RULES)
    assert again.has_open_question
    events = await answered(again, Decision("allow"), Decision("deny"))
    assert [e.arguments["command"] for e in events if isinstance(e, PermissionAsked)] == [
        "echo two >> log",
        "echo three >> log",
    ]
    assert events[-1] == TurnFinished("answered", "Done.")
    assert (home.root / "log").read_text() == "one\ntwo\n"
    assert [status for status, _ in outputs(again)] == ["done", "done", "denied"]
    assert not again.history.unanswered_calls


async def test_a_session_may_be_left_at_the_same_question_again(home: Home) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 1)
    for _ in range(2):
        again = await home.attended(ScriptedProvider.from_replies(), resume=True, ask_again=True, **RULES)
        async for event in again.resume_turn():
            if isinstance(event, PermissionAsked):
                break
        await again.close()
    last = await home.attended(ScriptedProvider.from_replies({"text": "Done."}), resume=True, ask_again=True, **RULES)
    await answered(last, *[Decision("allow")] * 3)
    assert (home.root / "log").read_text() == "one\ntwo\nthree\n"


async def test_a_call_that_the_user_changed_is_asked_about_as_it_was_changed(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies(STEP), **RULES)
    async for event in session.send("go"):
        if isinstance(event, PermissionAsked) and event.is_edited:
            break  # left at the second question
        if isinstance(event, PermissionAsked):
            session.answer(event.id, Decision("edit", arguments={"command": "echo mine >> log"}))
    await session.close()
    again = await home.attended(ScriptedProvider.from_replies({"text": "Done."}), resume=True, ask_again=True, **RULES)
    events = await answered(again, *[Decision("allow")] * 3)
    asked = [(event.arguments["command"], event.is_edited) for event in events if isinstance(event, PermissionAsked)]
    assert asked == [("echo mine >> log", True), ("echo two >> log", False), ("echo three >> log", False)]
    assert (home.root / "log").read_text() == "mine\ntwo\nthree\n"


async def test_what_is_said_instead_comes_behind_the_answer(home: Home) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 3)
    provider = ScriptedProvider.from_replies({"text": "As you like."})
    again = await home.attended(provider, resume=True, ask_again=True, **RULES)
    async for event in again.send("forget it"):
        if isinstance(event, PermissionAsked):
            again.answer(event.id, Decision("deny"))
    last = provider.requests[0].messages[-1]
    assert isinstance(last, User)
    assert (len(last.outputs), last.text) == (3, "forget it")
    assert [status for status, _ in outputs(again)] == ["done", "done", "denied"]


async def test_with_nobody_to_ask_the_model_is_told_that_nothing_was_approved(home: Home) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 2)
    provider = ScriptedProvider.from_replies({"text": "I see."})
    again = await home.attended(provider, resume=True, interactive=False, **RULES)
    events = [event async for event in again.send("what happened?")]
    assert outputs(again)[1:] == [("denied", NOT_APPROVED_TEXT), ("cancelled", NOT_BEGUN_TEXT)]
    assert outputs(again)[0][0] == "done"
    assert not any(isinstance(event, CallDenied) for event in events)
    assert (home.root / "log").read_text() == "one\n"


async def test_a_call_that_was_approved_and_had_begun_stays_interrupted(home: Home) -> None:
    step = {"calls": [bash("echo one >> log; exec sleep 600"), bash("echo two >> log")]}
    session = await home.attended(ScriptedProvider.from_replies(step), **RULES)
    async for event in session.send("go"):
        if isinstance(event, PermissionAsked):
            session.answer(event.id, Decision("allow"))
            await until((home.root / "log").exists)
            end = session._channel._turn
            assert end is not None
            end.cancel()  # as a kill would end it
    again = await home.attended(ScriptedProvider.from_replies({"text": "I see."}), resume=True, ask_again=True, **RULES)
    assert not again.has_open_question
    assert outputs(again) == [("interrupted", CALL_INTERRUPTED_TEXT), ("cancelled", NOT_BEGUN_TEXT)]


async def test_esc_at_the_question_that_is_asked_again_ends_the_turn(home: Home) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 2)
    again = await home.attended(ScriptedProvider.from_replies(), resume=True, ask_again=True, **RULES)
    events = list[Event]()
    async for event in again.resume_turn():
        if isinstance(event, PermissionAsked):
            again.interrupt()
        events.append(event)
    assert events[-1] == TurnFinished("interrupted", "I work.")
    assert [status for status, _ in outputs(again)] == ["done", "cancelled", "cancelled"]


@pytest.mark.parametrize("body", ['{"state": "later"}', "{", '{"output": {"type": "text", "text": "x"}}', "7"])
async def test_a_state_that_cannot_be_read_counts_as_interrupted(home: Home, body: str) -> None:
    await left_at(await home.attended(ScriptedProvider.from_replies(STEP), **RULES), 1)
    with closing(sqlite3.connect(home.root.parent / "sessions.db", isolation_level=None)) as db:
        db.execute("update situation set body = ? where kind = 'call'", (body,))
    again = await home.attended(ScriptedProvider.from_replies(), resume=True, ask_again=True, **RULES)
    assert [output.status for m in again.history.messages if isinstance(m, User) for output in m.outputs] == [
        "interrupted"
    ] * 3
    assert isinstance(again.history.messages[-1].parts[0], ToolOutput)
