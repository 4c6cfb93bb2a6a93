"""Summaries that are none, and compactions that somebody or something stops, in whole sessions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ebbtide.agent.events.session import Event, TurnFailed, TurnFinished, WindowLearned
from ebbtide.agent.events.view import CompactionFailed, CompactionStarted, NothingCompacted
from ebbtide.agent.messages import Assistant, Conversation, Note
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Chunk, Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from tests.agent.test_pure_context import is_valid
from tests.kit.session import ASKED, Home, compactions, events_of, first_turn, prints, said_last

TALK = [{"text": "word " * 900}, {"text": "short"}]
GOOD = "<retain>id 7</retain><summary>the parser was fixed</summary>"


async def after_compacting(home: Home, reply: dict[str, Any]) -> tuple[Conversation, tuple[str, ...], list[str]]:
    """What a compaction with this reply leaves, what ran, and why the reply was not used."""
    session, _ = await first_turn(
        home.open(ScriptedProvider.from_replies(*TALK, *[{**reply, "when": ASKED}] * 4)), "never touch x.py"
    )
    await events_of(session, "two")
    events: list[Event] = []
    result = await session.compact(None, events.append)
    await session.close()
    again = await home.open(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert again.history == session.history
    await again.close()
    return session.history, result.strategies, [e.reason for e in events if isinstance(e, CompactionFailed)]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"text": ""}, "it is empty"),
        ({"text": "<summary>\n</summary>"}, "it says nothing"),
        ({"text": "<summary>we fixed", "stop": "max_tokens"}, "it was cut off"),
        ({"text": "<summary>we fixed"}, "it was cut off"),
        ({"text": "We fixed the parser."}, "it lacks the `<summary>` element"),
        ({"text": GOOD, "calls": [{"name": "read", "arguments": {"path": "a"}}]}, "it calls a tool instead"),
        ({"text": GOOD, "stop": "refusal"}, "the model declined"),
        (
            {"text": "<summary>" + "we fixed the parser\n" * 5000 + "</summary>"},
            "it saves too little",
        ),
        ({"error": "auth"}, "the script says that this request fails: auth"),
    ],
)
async def test_a_reply_that_is_no_summary_is_told_and_the_facts_stand_in(
    home: Home, reply: dict[str, Any], why: str
) -> None:
    history, strategies, reasons = await after_compacting(home, reply)
    assert (strategies, reasons) == (("ledger",), [why])
    assert (history.summary.retain, history.summary.summary) == ("", "")
    assert "never touch x.py" in history.summary.ledger


@pytest.mark.parametrize(
    ("text", "retain", "summary"),
    [
        (GOOD, "id 7", "the parser was fixed"),
        ("<retain>番号 7</retain><summary>解析器を直しました。</summary>", "番号 7", "解析器を直しました。"),
        ("<summary>Der Parser läuft wieder.</summary>", "", "Der Parser läuft wieder."),
        ("<summary>the <retain>id 7</retain> parser was fixed</summary>", "id 7", "the id 7 parser was fixed"),
        ("Here it is: <SUMMARY>the <summary>parser</summary> was fixed</SUMMARY>", "", "the parser was fixed"),
    ],
)
async def test_a_good_summary_is_taken_in_any_language_and_however_it_is_tagged(
    home: Home, text: str, retain: str, summary: str
) -> None:
    history, strategies, reasons = await after_compacting(home, {"text": text})
    assert (strategies, reasons) == (("summary",), [])
    assert (history.summary.retain, history.summary.summary.splitlines()[0]) == (retain, summary)
    messages = build_prompt(history, Instructions("")).messages
    assert is_valid(messages)
    assert not any(tag in str(messages).lower() for tag in ("<summary>", "<retain>"))


class Stuck(ScriptedProvider):
    """A model that never finishes its summary."""

    asked: asyncio.Event

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        if ASKED in said_last(request):
            self.asked.set()
            await asyncio.Event().wait()
        async for chunk in super().stream(request):
            yield chunk


async def test_an_interrupt_ends_a_compaction_by_hand_and_changes_nothing(home: Home) -> None:
    provider = Stuck(ScriptedProvider.from_replies(*TALK, {"text": "fine"}).script)
    provider.asked = asyncio.Event()
    session, _ = await first_turn(home.open(provider), "one")
    await events_of(session, "two")
    before = session.history
    events: list[Event] = []
    compaction = asyncio.create_task(session.compact(None, events.append))
    await asyncio.wait_for(provider.asked.wait(), 10)
    session.interrupt()
    result = await asyncio.wait_for(compaction, 10)
    assert (result.is_interrupted, result.strategies) == (True, ())
    assert events == [CompactionStarted(result.before_tokens), NothingCompacted()]
    assert session.history == before
    assert (await events_of(session, "three"))[-1] == TurnFinished("answered", "fine")


TURNS = [reply for text in "abcdefgh" for reply in (prints(text), {"text": f"printed {text} " * 200})]
SHORT = [{"when": ASKED, "text": "<summary>much was printed</summary>"}] * 60


async def talk(session: Session) -> None:
    """Turns that leave much to make smaller."""
    for text in "abcdefgh":
        await events_of(session, f"print {text}")


@pytest.mark.parametrize("count", [1, 2])
async def test_a_turn_survives_overflows_while_something_can_be_made_smaller(home: Home, count: int) -> None:
    session = await home.open(
        ScriptedProvider.from_replies(*TURNS, *SHORT, *[{"error": "overflow"}] * count, {"text": "fine"})
    )
    await talk(session)
    events = await events_of(session)
    assert [e.attempt for e in events if isinstance(e, WindowLearned)] == [*range(1, count + 1)]
    assert [cause for cause, _ in compactions(events)] == ["overflow"] * count
    assert events[-1] == TurnFinished("answered", "fine")
    assert is_valid(build_prompt(session.history, Instructions("")).messages)


async def test_overflows_without_an_end_end_the_turn_and_nothing_is_lost(home: Home) -> None:
    session = await home.open(
        ScriptedProvider.from_replies(*TURNS, *SHORT, *[{"error": "overflow"}] * 3, {"text": "here"})
    )
    await talk(session)
    events = await events_of(session, "please look")
    assert [e.attempt for e in events if isinstance(e, WindowLearned)] == [1, 2, 3]
    failed = events[-1]
    assert isinstance(failed, TurnFailed)
    assert (failed.code, failed.exit_code) == ("context", 7)
    assert "start a new session or use a model with a larger window" in failed.message
    assert (await events_of(session, "and now"))[-1] == TurnFinished("answered", "here")
    await session.close()
    again = await home.open(ScriptedProvider.from_replies({"text": "on"}), resume=True)
    assert (await events_of(again, "and now"))[-1] == TurnFinished("answered", "on")
    messages = build_prompt(again.history, Instructions("")).messages
    assert is_valid(messages)
    assert "please look" in str(messages)


async def test_what_went_wrong_between_two_turns_is_told_with_the_next(home: Home) -> None:
    refused = {"when": ASKED, "text": "<summary> </summary>"}
    provider = ScriptedProvider.from_replies(
        {"text": "y" * 9000}, {"text": "x" * 4500}, refused, {"text": "fine"}, context_window=9900
    )
    session, _ = await first_turn(home.open(provider, interactive=True), "one")
    await events_of(session, "two")
    events = await events_of(session, "three")
    failed = [(e.model, e.reason) for e in events if isinstance(e, CompactionFailed)]
    assert failed == [("scripted/script", "it says nothing")]
    assert compactions(events)[0] == ("background", ("ledger",))
    assert any(isinstance(m, Assistant) and m.text == "fine" for m in session.history.messages)


class Broken(ScriptedProvider):
    """A model whose adapter has a bug."""

    asked: asyncio.Event

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        if ASKED in said_last(request):
            self.asked.set()
            raise RuntimeError("a bug")
        async for chunk in super().stream(request):
            yield chunk


async def test_after_a_bug_between_two_turns_a_session_gives_back_all_it_holds(home: Home) -> None:
    provider = Broken(
        ScriptedProvider.from_replies({"text": "short"}, {"text": "x" * 12_000}, context_window=9600).script
    )
    provider.asked = asyncio.Event()
    session = await home.open(provider, interactive=True)
    given_back: list[bool] = []

    async def give_back() -> None:
        given_back.append(True)

    session._on_close = give_back
    await events_of(session, "y" * 3000)
    await events_of(session, "two")
    await asyncio.wait_for(provider.asked.wait(), 10)
    with pytest.raises(RuntimeError, match="a bug"):
        await session.close()
    assert given_back == [True]
    home.sessions.remove(session)  # which is closed


async def test_a_compaction_that_the_model_asked_for_and_the_user_interrupted_is_told_so(home: Home) -> None:
    wish = {"calls": [{"name": "compact_context", "arguments": {}}]}
    provider = Stuck(ScriptedProvider.from_replies(*TALK, wish, {"text": "fine"}).script)
    provider.asked = asyncio.Event()
    session, _ = await first_turn(home.open(provider), "one")
    await events_of(session, "two")
    turn = asyncio.create_task(events_of(session, "three"))
    await asyncio.wait_for(provider.asked.wait(), 10)
    session.interrupt()
    assert (await asyncio.wait_for(turn, 10))[-1] == TurnFinished("interrupted", "")
    note = Note("[compact_context: the user interrupted it; nothing was compacted.]")
    assert [note in message.parts for message in session.history.messages[-1:]] == [True]
