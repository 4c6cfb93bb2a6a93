"""What the model is told again after a rewrite: its own list and notes, in whole sessions."""

from typing import Any

from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.messages import Note, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from tests.kit.session import ASKED, Home, events_of, first_turn, prints

ITEMS = [{"text": "parse", "status": "done"}, {"text": "test", "status": "doing"}]
REMINDERS = ["[Open todos:\n- [doing] test]", "[Your notes:\nport 80\nask Ann]"]
SUMMARY = {"when": ASKED, "text": "<summary>we worked</summary>"}


def jot(**changes: Any) -> dict[str, Any]:
    return {"calls": [{"name": "todo", "arguments": {"items": ITEMS, "notes": "port 80\nask Ann", **changes}}]}


def notes_of(request: Request) -> list[str]:
    last = request.messages[-1]
    return [part.text for part in last.parts if isinstance(part, Note)] if isinstance(last, User) else []


async def test_list_and_notes_are_told_after_a_rewrite_and_not_before(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        jot(), prints("a"), prints("b"), {"text": "done"}, SUMMARY, {"text": "on"}, {"text": "fine"}
    )
    session, _ = await first_turn(home.open(provider))
    assert [notes_of(request) for request in provider.requests] == [[], [], [], []]
    assert (await session.compact()).strategies == ("summary",)
    assert "Notes you made:\n- port 80\n- ask Ann" in session.history.summary.ledger
    await events_of(session, "go on")
    await events_of(session, "and on")
    assert [notes_of(request) for request in provider.requests[-2:]] == [REMINDERS, []]


async def test_a_call_right_after_the_rewrite_tells_of_its_own_list(home: Home) -> None:
    done = [{"text": "test", "status": "done"}]
    ask = {"calls": [{"name": "compact_context", "arguments": {}}]}
    again = jot(items=done, notes="")
    provider = ScriptedProvider.from_replies(jot(), prints("a"), prints("b"), ask, SUMMARY, again, {"text": "fine"})
    session = await home.open(provider)
    events: list[Event] = await events_of(session)
    assert [event.strategies for event in events if isinstance(event, ContextCompacted)] == [("summary",)]
    assert notes_of(provider.requests[-1]) == []


async def test_list_and_notes_outlive_the_program(home: Home) -> None:
    session, _ = await first_turn(
        home.open(ScriptedProvider.from_replies(jot(), prints("a"), prints("b"), {"text": "done"}, SUMMARY))
    )
    assert (await session.compact()).strategies == ("summary",)
    await session.close()
    provider = ScriptedProvider.from_replies(prints("c"), prints("d"), {"text": "so"}, SUMMARY, {"text": "on"})
    again, _ = await first_turn(home.open(provider, resume=True), "go on")
    assert (await again.compact()).strategies == ("summary",)
    await events_of(again, "what now?")
    assert notes_of(provider.requests[-1]) == REMINDERS
