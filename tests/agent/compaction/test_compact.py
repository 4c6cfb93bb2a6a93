"""Compaction, recovery and the final turn in whole sessions with a scripted model."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.compaction.compact import compact_conversation
from ebbtide.agent.compaction.model_summary import CompactionContext
from ebbtide.agent.compaction.room import CompactionRoom, conversation_tokens
from ebbtide.agent.errors import AuthFailed, TimedOut
from ebbtide.agent.events.session import (
    Event,
    FinalTurn,
    Noticed,
    ReplyFinished,
    TurnFailed,
    TurnFinished,
    WindowLearned,
)
from ebbtide.agent.events.view import Cause, CompactionFailed, CompactionStarted, ContextCompacted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.messages import Assistant, Conversation, Image, Text, ToolCall, ToolOutput, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.providers.base import Chunk, Provider, Request
from ebbtide.agent.providers.summarisers import Summarisers
from ebbtide.agent.providers.wires.scripted import Script, ScriptedProvider, ScriptedReply
from ebbtide.agent.records.rows import decode_snapshot, encode_snapshot
from ebbtide.agent.request.fit import FINAL_TURN_NOTE
from ebbtide.tools.final_report import FinalReport
from ebbtide.tools.process.state import ProgramState
from tests.agent.test_pure_context import is_valid
from tests.kit.adapters import PIXEL
from tests.kit.conversations import conversations, output_ids
from tests.kit.polling import until
from tests.kit.session import (
    ASKED,
    SMALL,
    USUAL_TOOLS,
    Home,
    call,
    compactions,
    events_of,
    fill,
    first_turn,
    prints,
    said_last,
)


async def test_the_request_for_a_summary_begins_with_the_last_request(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        *fill(),
        {"when": ASKED, "text": "<retain>id 7</retain><summary>a and b were printed</summary>"},
        {"text": "fine"},
        context_window=14_200,
    )
    session = await home.open(
        provider,
        compaction_settings=CompactionSettings(CompactionCaps(tail=200, ledger=900, protected_output_tokens=100_000)),
    )
    events = await events_of(session, "never touch x.py")
    assert compactions(events) == [("full", ("summary",))]
    asked = next(n for n, request in enumerate(provider.requests) if ASKED in said_last(request))
    before, summary, after = provider.requests[asked - 1 : asked + 2]
    assert (summary.system, summary.tools) == (before.system, before.tools)
    sent, asking = ([part for message in one.messages for part in message.parts] for one in (before, summary))
    assert asking[:-1] == sent, "what the model has not seen yet stays, and is not read for a summary"
    assert [part.text for part in asking[-1:] if isinstance(part, Text) and ASKED in part.text]
    assert events[-1] == TurnFinished("answered", "fine")
    assert session.history.summary.retain == "id 7"
    assert session.history.summary.request == User((Text("never touch x.py"),))
    assert is_valid(after.messages)


async def test_old_outputs_are_masked_before_a_model_is_asked(home: Home) -> None:
    provider = ScriptedProvider.from_replies(*fill(), {"text": "fine"}, context_window=14_200)
    session, events = await first_turn(home.open(provider))
    assert compactions(events)[0] == ("full", ("mask",))
    assert len(session.history.messages) == 11  # with the note on how much room there is again
    last = provider.requests[-1].messages
    assert "Ran: printf" in str(last[2])
    assert "[recall:r1]" in str(last[2])
    await session.close()

    again = await home.open(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert (again.history.masked, again.history.messages) == (session.history.masked, session.history.messages)


async def test_an_output_is_not_masked_for_an_earlier_one_of_the_same_id(home: Home) -> None:
    """Some servers count the calls of each reply from the start."""
    steps = [{"calls": [{**step["calls"][0], "id": "call_0"}]} for step in fill()]
    look = {"calls": [{**call("bash", command="echo here it is"), "id": "call_0"}]}
    provider = ScriptedProvider.from_replies(*steps, look, {"text": "fine"}, context_window=14_000)
    session, events = await first_turn(home.open(provider))
    assert compactions(events)[0] == ("full", ("mask",))
    masked = {"call_0", "call_0-2", "call_0-3"}
    assert session.history.masked == masked, "what programs print is not worth being written to the cache again"
    output = ToolOutput("call_0-5", "here it is\nexit code 0", program=ProgramState("exit code 0", 0))
    assert provider.requests[-1].messages[-1] == User((output,))


async def test_three_summaries_that_fail_are_the_last_until_somebody_asks(home: Home) -> None:
    replies: list[Mapping[str, Any]] = []
    for _ in range(5):
        replies += [*fill(), {"text": "done"}]
    refused = [{"when": ASKED, "text": "(no summary available)"}] * 3
    asked = {"when": ASKED, "text": "<summary>all</summary>"}
    provider = ScriptedProvider.from_replies(*replies, *refused, context_window=14_200)
    session = await home.open(
        provider,
        compaction_settings=CompactionSettings(CompactionCaps(tail=200, ledger=900, protected_output_tokens=100_000)),
    )
    events = [event for turn in range(5) for event in await events_of(session, f"turn {turn}")]
    assert len([e for e in events if isinstance(e, CompactionFailed)]) == 3
    assert len([e for e in events if isinstance(e, Noticed) and "3 summaries in a row" in e.text]) == 1
    assert all(strategies == ("ledger",) for _, strategies in compactions(events)[:3])
    provider._remaining_replies.append(ScriptedReply(text=asked["text"], when=asked["when"]))
    assert (await session.compact()).strategies == ("summary",)


@pytest.mark.parametrize("how", [{"error": "overflow"}, {"text": "half an", "stop": "overflow"}, {"stop": "overflow"}])
async def test_a_request_that_is_too_large_is_made_smaller_and_sent_again(home: Home, how: dict[str, Any]) -> None:
    picture = Image("image/png", PIXEL)
    summary = {"when": ASKED, "text": "<summary>we printed a and b</summary>"}
    provider = ScriptedProvider.from_replies(prints("a"), prints("b"), how, summary, {"text": "fine"})
    session = await home.open(provider)
    events = await events_of(session, "look at this", (picture,))
    learnt = [e for e in events if isinstance(e, WindowLearned)]
    assert [(e.attempt, e.attempts) for e in learnt] == [(1, 3)]
    assert learnt[0].size < 200_000
    assert compactions(events)[0][0] == "overflow"
    assert events[-1] == TurnFinished("answered", "fine")
    last = provider.requests[-1].messages
    assert picture in [part for message in last for part in message.parts]
    assert is_valid(last)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"error": "overflow"}, "the script says that this request fails: overflow"),
        ({"stop": "overflow"}, "`scripted/script` rejects the request as too large"),
    ],
)
async def test_a_request_that_stays_too_large_ends_the_turn(home: Home, how: dict[str, Any], why: str) -> None:
    session = await home.open(ScriptedProvider.from_replies(prints("a"), prints("b"), prints("c"), *[how] * 6))
    failed = (await events_of(session))[-1]
    message = f"{why}, even after compaction; start a new session or use a model with a larger window"
    assert failed == TurnFailed("context", message, 7)
    await session.close()
    again = await home.open(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert is_valid(build_prompt(again.history, Instructions("")).messages)


async def test_a_window_too_small_for_what_stays_is_told_once(home: Home) -> None:
    provider = ScriptedProvider.from_replies(*[prints("x" * 3000)] * 4, {"text": "fine"}, context_window=9_000)
    events = await events_of(await home.open(provider))
    assert len(compactions(events)) > 1
    floors = [e.text for e in events if isinstance(e, Noticed) and "a compacted conversation still takes" in e.text]
    assert [text.partition("; ")[2] for text in floors] == ["use a model with a larger window for more room"]


async def test_an_overflow_never_asks_the_model_about_the_whole_conversation_again(home: Home) -> None:
    provider = ScriptedProvider.from_replies(prints("a"), prints("b"), {"error": "overflow"}, {"text": "fine"})
    await events_of(await home.open(provider))
    assert not any(ASKED in said_last(request) for request in provider.requests)


async def test_a_full_window_ends_in_a_report_when_the_user_wants_that(home: Home) -> None:
    report = {"text": "", "calls": [call("final_report", report="it is done"), call("read", path="x")]}
    provider = ScriptedProvider.from_replies(*fill(), report, context_window=14_300)
    tools = (*USUAL_TOOLS, FinalReport())
    session = await home.open(provider, compaction_settings=CompactionSettings(SMALL, on_full="final"), tools=tools)
    events = await events_of(session)
    assert len([e for e in events if isinstance(e, FinalTurn)]) == 1
    assert compactions(events) == []
    assert events[-1] == TurnFinished("answered", "it is done")
    assert all(request.tools == provider.requests[0].tools for request in provider.requests)
    assert FINAL_TURN_NOTE in provider.requests[-1].messages[-1].parts
    outputs = session.history.messages[-1]
    assert isinstance(outputs, User)
    assert [(o.status, o.text[:7]) for o in outputs.outputs] == [("done", "report "), ("failed", "not run")]


@pytest.mark.parametrize(
    ("replies", "end"),
    [
        ([{"text": "all there is"}], TurnFinished("answered", "all there is")),
        ([prints("c"), {"text": "so far"}], TurnFinished("answered", "so far")),
        ([{"text": "on", **prints("c")}, {"text": "and on", **prints("d")}], TurnFinished("context_limit", "and on")),
    ],
)
async def test_a_final_turn_ends_whatever_the_model_does(
    home: Home, replies: list[dict[str, Any]], end: TurnFinished
) -> None:
    provider = ScriptedProvider.from_replies(*fill(), *replies, context_window=14_200)
    session = await home.open(provider, compaction_settings=CompactionSettings(SMALL, on_full="final"))
    assert (await events_of(session))[-1] == end
    assert is_valid(session.history.messages)


async def test_a_report_ends_a_turn_that_has_room_left(home: Home) -> None:
    provider = ScriptedProvider.from_replies({"calls": [call("final_report", report="done early")]})
    session = await home.open(provider, tools=(*USUAL_TOOLS, FinalReport()))
    assert (await events_of(session))[-1] == TurnFinished("answered", "done early")


async def test_a_message_that_arrives_during_a_background_compaction_survives_it(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "y" * 9000},
        {"text": "x" * 4500},
        {"when": ASKED, "text": "<summary>they talked</summary>", "pause": 0.2},
        {"text": "fine"},
        context_window=9900,
    )
    session, _ = await first_turn(home.open(provider, interactive=True), "one")
    await events_of(session, "two")
    await until(lambda: len(provider.requests) == 3)  # the summary has been asked for
    events = await events_of(session, "three")
    assert compactions(events)[0][0] == "background"
    assert events[-1] == TurnFinished("answered", "fine")
    assert "three" in str(provider.requests[-1].messages)
    await session.close()
    again = await home.open(ScriptedProvider.from_replies({"text": "ok"}), resume=True)
    assert again.history == session.history


async def test_a_background_compaction_is_told_once_with_the_next_turn(home: Home) -> None:
    provider = ScriptedProvider.from_replies(
        {"text": "y" * 9000},
        {"text": "x" * 4500},
        {"when": ASKED, "text": "<summary>they talked</summary>"},
        {"text": "fine"},
        context_window=9900,
    )
    session, _ = await first_turn(home.open(provider, interactive=True), "one")
    before = await events_of(session, "two")
    assert isinstance(before[-1], TurnFinished)
    await session._conversation_lock.acquire()  # after the compaction, which took the lock first
    session._conversation_lock.release()
    events = await events_of(session, "three")
    assert [type(event) for event in events if isinstance(event, CompactionStarted | ContextCompacted)] == [
        CompactionStarted,
        ContextCompacted,
    ]
    assert compactions(events) == [("background", ("summary",))]


async def test_an_interrupt_ends_a_background_compaction(home: Home) -> None:
    slow = {"when": ASKED, "text": "<summary>they talked</summary>", "pause": 60}
    provider = ScriptedProvider.from_replies({"text": "short"}, {"text": "x" * 12_000}, slow, context_window=9000)
    session, _ = await first_turn(home.open(provider, interactive=True), "y" * 3000)
    await events_of(session, "two")
    before = session.history
    await until(lambda: len(provider.requests) == 3)  # the summary has been asked for
    await asyncio.wait_for(session.close(), 20)  # of the 60 that the summary takes
    assert session.history == before


def named(name: str, *replies: ScriptedReply, window: int = 200_000) -> ScriptedProvider:
    return ScriptedProvider(Script(replies, window), name)


async def test_the_model_that_is_set_writes_the_summary_piece_by_piece(home: Home) -> None:
    writer = named("writer", *[ScriptedReply(f"<summary>part {n}</summary>") for n in range(9)], window=20_000)

    async def connect(model: str) -> Provider:
        assert model == "scripted/writer"
        return writer

    text = "word " * 9000
    provider = ScriptedProvider.from_replies({"text": text}, {"text": "short"})
    session, _ = await first_turn(home.open(provider, summarisers=Summarisers(["scripted/writer"], connect)), "one")
    await events_of(session, "two")
    assert (await session.compact()).strategies == ("summary",)
    assert len(provider.requests) == 2
    assert len(writer.requests) > 1
    assert all(request.tools == () for request in writer.requests)
    assert session.history.summary.summary == f"part {len(writer.requests) - 1}"


async def test_a_writer_that_cannot_be_reached_is_replaced_by_the_model_itself(home: Home) -> None:
    async def connect(model: str) -> Provider:
        raise AuthFailed(f"no key for {model}")

    provider = ScriptedProvider.from_replies(
        {"text": "word " * 900}, {"text": "short"}, {"when": ASKED, "text": "<summary>said a lot</summary>"}
    )
    session, _ = await first_turn(home.open(provider, summarisers=Summarisers(["a/b"], connect)), "one")
    await events_of(session, "two")
    assert (await session.compact()).strategies == ("summary",)
    assert session.history.summary.summary == "said a lot"


async def test_a_writer_that_says_nothing_is_not_waited_for_again_until_the_user_asks() -> None:
    class Mute(ScriptedProvider):
        async def stream(self, request: Request) -> AsyncIterator[Chunk]:
            self.requests.append(request)
            for chunk in list[Chunk]():
                yield chunk
            raise TimedOut("nothing came", retry_after=600.0)

    mute, own = (
        Mute(Script(()), "mute"),
        ScriptedProvider.from_replies(*[{"text": "<summary>they talked</summary>"}] * 3),
    )

    async def summarisers(job: SummaryJob, emit: object) -> tuple[Provider, ...]:
        return (mute,)

    def request(asked: Conversation) -> Request:
        return Request("", build_prompt(asked, Instructions("")).messages, (), 1000, "s")

    settings, events = CompactionSettings(SMALL), list[Event]()
    work = CompactionContext(
        own,
        request,
        CompactionRoom(4_000, 100, 100),
        conversation_tokens,
        settings,
        Interrupt(),
        events.append,
        choose_summarisers=summarisers,
    )
    turn = (User((Text("do it " * 900),)), Assistant((Text("done " * 900),), "p/m"))
    asked = list[tuple[int, int]]()
    for cause in ("full", "full", "asked"):
        work.learned_limits.end_cooldown()
        compacted = await compact_conversation(Conversation((*turn, *turn, User((Text("go"),)))), work, cause)
        assert compacted.conversation.summary.summary == "they talked"
        asked.append((len(mute.requests), len(own.requests)))
    assert asked == [(1, 1), (1, 2), (2, 3)]
    assert sum(isinstance(event, CompactionFailed) for event in events) == 2


async def test_a_summary_that_the_providers_counts_make_larger_is_not_taken() -> None:
    """The estimate learned from a provider's counts may put a view with short words in it above one with long ones,
    which the plain estimate puts below."""

    def count_tokens(view: Conversation) -> int:
        return 840 if view.summary.summary else conversation_tokens(view)

    def request(asked: Conversation) -> Request:
        return Request("", build_prompt(asked, Instructions("")).messages, (), 1000, "s")

    events = list[Event]()
    work = CompactionContext(
        ScriptedProvider.from_replies({"text": "<summary>they talked</summary>"}),
        request,
        CompactionRoom(4_000, 100, 100),
        count_tokens,
        CompactionSettings(SMALL),
        Interrupt(),
        events.append,
    )
    talk = (User((Text("do it " * 200),)), Assistant((Text("done " * 200),), "p/m"))
    compacted = await compact_conversation(
        Conversation((*talk, User((Text("go"),)), Assistant((Text("ok"),), "p/m"))), work, "asked"
    )
    assert not compacted.conversation.summary.summary
    assert compacted.result.strategies == ("ledger",)
    assert compacted.result.after_tokens < compacted.result.before_tokens < 840


async def test_the_fastest_that_answers_writes_first() -> None:
    models = {
        "scripted/slow": named("slow", ScriptedReply("ready", pause=0.2)),
        "scripted/fast": named("fast", ScriptedReply("ready")),
        "scripted/broken": named("broken", ScriptedReply(error="auth")),
    }

    async def connect(model: str) -> Provider:
        return models[model]

    summarisers = Summarisers(list(models), connect, orders_by_speed=True)
    job = SummaryJob(1000, 1000)
    events: list[Event] = []
    assert [p.facts.name for p in await summarisers(job, events.append)] == ["fast", "slow", "broken"]
    assert [p.facts.name for p in await summarisers(job, events.append)] == ["fast", "slow", "broken"]
    assert len(models["scripted/fast"].requests) == 1
    asked = [(event.purpose, event.model, event.cost) for event in events if isinstance(event, ReplyFinished)]
    assert asked == [("probe", "scripted/fast", 0.0), ("probe", "scripted/slow", 0.0)]
    await summarisers.close()


REPLIES = (
    {"text": "<retain>id</retain><summary>short</summary>"},
    {"text": "<summary>(no summary available)</summary>"},
    {"text": "<summary>cut"},
    {"text": "<summary>" + "long " * 5000 + "</summary>"},
    {"text": "<summary>x</summary>", "calls": [{"name": "read"}]},
    {"text": "<summary>x</summary>", "stop": "max_tokens"},
    {"text": "我们修复了它"},
    {"error": "auth"},
    {"error": "overflow"},
)


@settings(deadline=None)
@given(
    conversations(),
    st.lists(st.sampled_from(REPLIES), min_size=60, max_size=60),
    st.lists(st.sampled_from(["full", "asked", "background", "overflow"]), min_size=1, max_size=3),
    st.integers(500, 40_000),
    st.floats(1, 3),
)
def test_any_compaction_ends_in_a_valid_view_that_is_no_larger_and_loses_nothing(
    conversation: Conversation, replies: list[Mapping[str, Any]], causes: list[Cause], effective: int, scale: float
) -> None:
    provider = ScriptedProvider.from_replies(*replies)
    events: list[Event] = []

    def request(asked: Conversation) -> Request:
        return Request("", build_prompt(asked, Instructions("")).messages, (), 1000, "s")

    room = CompactionRoom(effective, 100, 100, 0.95, scale, 500)
    work = CompactionContext(
        provider, request, room, conversation_tokens, CompactionSettings(SMALL), Interrupt(), events.append
    )
    log, view = conversation.messages, conversation
    for number, cause in enumerate(causes):
        more = (
            Assistant((ToolCall(f"z{number}", "bash", {"command": "make"}),), "m/a"),
            User((ToolOutput(f"z{number}", "line\n" * 200),)),
        )
        log, view = log + more, view.plus(*more)
        after = asyncio.run(compact_conversation(view, work, cause)).conversation
        assert conversation_tokens(after) <= conversation_tokens(view)
        assert after == view or conversation_tokens(after) < conversation_tokens(view)
        assert log[len(log) - len(after.messages) :] == after.messages
        assert after.outputs_before == len(output_ids(log)) - len(output_ids(after.messages))
        assert is_valid(build_prompt(after, Instructions("")).messages)
        asked = next(m for m in reversed(log) if isinstance(m, User) and m.text)
        parts = [part for message in build_prompt(after, Instructions("")).messages for part in message.parts]
        may_go = (ToolOutput, Image) if any("pictures" in how for _, how in compactions(events)) else ToolOutput
        assert all(part in parts for part in asked.parts if not isinstance(part, may_go))
        decoded = decode_snapshot(encode_snapshot(after, len(log)))
        assert decoded == (len(log) - len(after.messages), replace(after, messages=()))
        view = after
    assert work.learned_limits.summary_failure_count <= 3 or "asked" in causes
