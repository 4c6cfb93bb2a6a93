"""What is done between two turns: summaries while nobody waits, and what the model is told of its room afterwards."""

from functools import reduce

import pytest

from ebbtide.agent.events.session import Event, ReplyFinished, RetryScheduled, TurnFinished
from ebbtide.agent.events.view import CompactionFailed, CompactionStarted, ContextCompacted, NothingCompacted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.messages import Note, User
from ebbtide.agent.providers.base import Request
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.tui.view.blocks import Notice, SessionView
from ebbtide.tui.view.receipts import summary_failure_text
from ebbtide.tui.view.reduce import apply_event
from tests.kit.polling import until
from tests.kit.session import ASKED, Home, compactions, events_of, first_turn

CAPS = CompactionCaps(tail=2000, ledger=900, protected_output_tokens=200)
SUMMARY = {"when": ASKED, "text": "<summary>they talked</summary>"}
LONG = "some words that say hardly anything " * 1210
"""About 14,000 tokens; 37,500 are usable of a window of 60,000."""


async def talk(session: Session, *texts: str) -> list[Event]:
    """All events of these turns, each begun when nothing is done any more behind the one before."""
    events: list[Event] = []
    for text in texts:
        async with session._conversation_lock:
            pass
        events += await events_of(session, text)
    return events


@pytest.mark.parametrize("interactive", [True, False])
@pytest.mark.parametrize(
    ("how", "compacted"),
    [
        (CompactionSettings(CAPS), [("background", ("summary",))]),
        (CompactionSettings(CAPS, background_share=0.9), []),
        (CompactionSettings(CAPS, background_share=0.9, background_message_count=4), [("background", ("summary",))]),
        (CompactionSettings(CAPS, policy="fixed"), []),
        (CompactionSettings(CAPS, policy="off"), []),
        (CompactionSettings(CAPS, on_full="final"), []),
    ],
    ids=["large", "not so large", "many messages", "fixed", "off", "report"],
)
async def test_a_long_conversation_is_summarised_between_two_turns(
    home: Home, how: CompactionSettings, compacted: list[tuple[str, tuple[str, ...]]], interactive: bool
) -> None:
    """In a terminal while the user reads, in a script when the next turn begins."""
    provider = ScriptedProvider.from_replies(
        {"text": "yes"}, {"text": "yes"}, SUMMARY, {"text": "three"}, context_window=60_000
    )
    session = await home.open(provider, compaction_settings=how, interactive=interactive)
    events = await talk(session, LONG, LONG, "and now?")
    assert compactions(events) == compacted


@pytest.mark.parametrize("interactive", [True, False])
async def test_nothing_is_summarised_that_would_not_pay(home: Home, interactive: bool) -> None:
    provider = ScriptedProvider.from_replies(*[{"text": "yes"}] * 6, context_window=60_000)
    how = CompactionSettings(CAPS, background_message_count=2)
    session = await home.open(provider, compaction_settings=how, interactive=interactive)
    assert compactions(await talk(session, *["a word"] * 6)) == []


async def test_a_run_of_one_turn_asks_for_no_summary_behind_it(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"text": LONG}, {"text": LONG}, context_window=60_000)
    session = await home.open(provider, compaction_settings=CompactionSettings(CAPS))
    await talk(session, "one", "two")
    await session.close()
    assert len(provider.requests) == 2


async def test_a_summary_that_cannot_be_used_is_told_with_the_next_turn(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "yes"}, {"text": "yes"}, {"when": ASKED, "text": "I would rather not."}, {"text": "three"},
        context_window=60_000,
    )  # fmt: skip
    session = await home.open(provider, compaction_settings=CompactionSettings(CAPS), interactive=True)
    events = await talk(session, LONG, LONG, "and now?")
    assert [type(e) for e in events if isinstance(e, CompactionFailed | ContextCompacted)] == [
        CompactionFailed,
        ContextCompacted,
    ]


@pytest.mark.parametrize(
    "answer",
    [
        {"error": "auth"},
        {"text": ""},
        {"text": "I would rather not."},
        {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]},
    ],
    ids=["refused", "empty", "nonsense", "a call"],
)
async def test_a_summary_that_nobody_waits_for_and_that_fails_leaves_a_row_that_says_so(
    home: Home, answer: dict[str, object]
) -> None:
    how = CompactionSettings(CAPS, background_share=0.9, background_message_count=4)
    provider = ScriptedProvider.from_replies(
        *[{"text": "yes"}] * 2, *[{"when": ASKED, **answer}] * 5, context_window=60_000
    )
    session = await home.open(provider, compaction_settings=how, interactive=True)
    events: list[Event] = []
    session.set_listener(events.append)
    await talk(session, LONG, LONG)
    async with session._conversation_lock:
        pass
    started, failed, ended = (event for event in events if not isinstance(event, ReplyFinished | RetryScheduled))
    assert isinstance(started, CompactionStarted)
    assert isinstance(failed, CompactionFailed)
    assert ended == NothingCompacted()
    view = reduce(apply_event, events, SessionView())
    assert list(view.blocks) == [Notice(summary_failure_text(failed))]


async def test_a_message_does_not_wait_for_a_summary_that_can_be_made_later(home: Home) -> None:
    """The summary never comes; the turn does. It is not asked for again right behind that turn."""
    never = {"when": ASKED, "text": "<summary>they talked</summary>", "pause": 600}
    provider = ScriptedProvider.from_replies(
        {"text": "yes"}, {"text": "yes"}, never, {"text": "three"}, context_window=60_000
    )
    session, _ = await first_turn(
        home.open(provider, compaction_settings=CompactionSettings(CAPS), interactive=True), LONG
    )
    await events_of(session, LONG)
    await until(lambda: len(provider.requests) == 3)
    events = await events_of(session, "and now?")
    assert (compactions(events), [event.text for event in events if isinstance(event, TurnFinished)]) == ([], ["three"])
    assert session._background_compaction is not None
    assert session._background_compaction.done()


async def test_whoever_listens_is_told_at_once_what_happens_while_nobody_talks(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "yes"}, {"text": "yes"}, SUMMARY, {"text": "three"}, context_window=60_000
    )
    session = await home.open(provider, compaction_settings=CompactionSettings(CAPS), interactive=True)
    events: list[Event] = []
    session.set_listener(events.append)
    await talk(session, LONG, LONG)
    async with session._conversation_lock:
        pass
    assert compactions(events) == [("background", ("summary",))]
    assert compactions(await talk(session, "and now?")) == []


def told_of_room(request: Request) -> list[str]:
    notes = [part.text for m in request.messages if isinstance(m, User) for part in m.parts if isinstance(part, Note)]
    return [note[:22] for note in notes if note.startswith("[Context: ")]


async def test_what_was_said_of_the_room_is_put_right_before_the_model_reads_it(home: Home) -> None:
    """A note says how full the window is; the mask that follows makes that untrue."""
    for name in "abcdef":
        (home.root / f"{name}.txt").write_text(f"{name} says what is written here\n" * 850)
    reads = [{"calls": [{"name": "read", "arguments": {"path": f"{name}.txt"}}]} for name in "abcdef"]
    provider = ScriptedProvider.from_replies(*reads, {"text": "done"}, context_window=60_000)
    events = await events_of(await home.open(provider, compaction_settings=CompactionSettings(CAPS, policy="fixed")))
    assert ("full", ("mask",)) in compactions(events)
    notes_of_requests = [told_of_room(request) for request in provider.requests]
    full = next(notes for notes in notes_of_requests if notes)
    after = next(notes for notes in notes_of_requests if len(notes) > len(full) or (notes and notes[0] != full[0]))
    assert after[-1].endswith("% used now")
    assert int(after[-1].split()[1][:-1]) < int(full[-1].split()[1][:-1])
