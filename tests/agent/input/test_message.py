"""What the user says while a turn runs: it reaches the model at the next step, and is never lost."""

from collections.abc import Sequence
from typing import Any

import pytest

from ebbtide.agent.events.session import Event, Steered, StepStarted, ToolFinished, TurnFailed, TurnFinished
from ebbtide.agent.events.view import PrefixDrifted
from ebbtide.agent.messages import Note, Text, ToolOutput, User
from ebbtide.agent.prompt.reminder_notes import ReminderFacts
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.agent.view.message_text import STEERING_NOTE, steering_message
from ebbtide.store.errors import StoreError
from ebbtide.store.sessions import SessionStore
from tests.kit.session import Home, call

TODO = {"text": "I look.", "calls": [call("todo", items=[])]}


class Waiting:
    """Messages that wait until a turn takes them."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def take(self) -> Sequence[User]:
        messages = tuple(User((Text(text),)) for text in self.texts)
        self.texts.clear()
        return messages


async def run(session: Session, waiting: Waiting, say: str = "", at: type[Any] = ToolFinished) -> list[Event]:
    """The events of a turn, in which something is said at the first event of a kind."""
    events: list[Event] = []
    async for event in session.send("go", pending_messages=waiting.take):
        if say and isinstance(event, at) and not any(isinstance(before, at) for before in events):
            waiting.texts.append(say)
        events.append(event)
    return events


async def test_what_is_said_reaches_the_model_with_the_next_step_behind_the_outputs(home: Home) -> None:
    provider = ScriptedProvider.from_replies(TODO, {"text": "With tabs, then."})
    session = await home.attended(provider)
    waiting = Waiting()
    events = await run(session, waiting, "use tabs")
    assert [e for e in events if isinstance(e, Steered | StepStarted | TurnFinished)] == [
        StepStarted(1),
        Steered("use tabs"),
        StepStarted(2),
        TurnFinished("answered", "With tabs, then."),
    ]
    outputs = provider.requests[1].messages[-1]
    assert isinstance(outputs, User)
    assert [type(part) for part in outputs.parts] == [ToolOutput, Note, Text]
    assert outputs.parts[1:] == (STEERING_NOTE, Text("use tabs"))
    assert provider.requests[1].messages[:2] == (*provider.requests[0].messages, session.history.messages[1])
    assert not any(isinstance(event, PrefixDrifted) for event in events)


async def test_what_waits_when_a_turn_begins_is_heard_with_its_first_step(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"text": "Both."})
    session = await home.attended(provider)
    await run(session, Waiting("and this", "and that"))
    assert [part.text for part in provider.requests[0].messages[0].parts if isinstance(part, Text)] == [
        "go",
        "and this",
        "and that",
    ]


async def test_what_is_said_while_the_last_answer_is_written_is_left_where_it_waits(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies({"text": "Done."}))
    waiting = Waiting()
    events = await run(session, waiting, "one more thing", at=StepStarted)
    assert not any(isinstance(event, Steered) for event in events)
    assert waiting.texts == ["one more thing"]


async def test_an_interrupted_turn_takes_nothing_any_more(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies(TODO, {"text": "never said"}))
    waiting = Waiting()
    ends = []
    async for event in session.send("go", pending_messages=waiting.take):
        if isinstance(event, ToolFinished):
            waiting.texts.append("use tabs")
            session.interrupt()
        ends.append(event)
    assert ends[-1] == TurnFinished("interrupted", "I look.")
    assert waiting.texts == ["use tabs"]


async def test_a_process_that_ends_right_after_it_was_heard_resumes_with_it(home: Home) -> None:
    session = await home.attended(ScriptedProvider.from_replies({"text": "never said", "pause": 60}))
    waiting = Waiting("use tabs")
    turn = session.send("go", pending_messages=waiting.take)
    async for event in turn:
        if isinstance(event, Steered):
            break
    # What a process does not live to write is not written: the session is read again from its rows as they are now.
    provider = ScriptedProvider.from_replies({"text": "With tabs."})
    again = await home.attended(provider, resume=True)
    assert again.history.messages == (User((Text("go"),)), steering_message(User((Text("use tabs"),))))
    await run(again, Waiting())
    assert [part.text for part in provider.requests[0].messages[0].parts if isinstance(part, Text)] == [
        "go",
        "use tabs",
        "go",
    ]
    await turn.aclose()


async def test_what_cannot_be_written_down_is_not_said_to_be_heard(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await home.attended(ScriptedProvider.from_replies(TODO, {"text": "never said"}))
    write = SessionStore.write

    def full(store: SessionStore, name: str, messages: Any, *rest: Any) -> None:
        if any("use tabs" in str(row) for row in messages):
            raise StoreError("full", "the disk is full")
        write(store, name, messages, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(SessionStore, "write", full)
        events = await run(session, Waiting(), "use tabs")
    assert not any(isinstance(event, Steered) for event in events)
    assert isinstance(events[-1], TurnFailed)
    assert (await run(session, Waiting()))[-1] == TurnFinished("answered", "never said")
    assert STEERING_NOTE.text not in str(session.history)


async def test_another_mode_holds_at_once_is_told_to_the_model_and_is_the_session_s_own(home: Home) -> None:
    write = {"calls": [call("write", path="a.txt", content="hi")]}
    provider = ScriptedProvider.from_replies(TODO, write, {"text": "I only plan."})
    session = await home.attended(provider, mode="auto", surroundings=ReminderFacts)
    ended = []
    async for event in session.send("go"):
        if isinstance(event, ToolFinished):
            ended.append((event.name, event.status))
            await session.change_mode("plan")
    assert ended == [("todo", "done"), ("write", "denied")]
    assert session.mode == "plan"
    assert "[The permission mode is now `plan`: read, think and propose; change nothing, run only plain " in str(
        provider.requests[1]
    )
    assert provider.requests[1].system == provider.requests[0].system
    await session.close()
    assert (await home.row()).mode == "plan"
