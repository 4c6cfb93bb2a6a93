"""The guard at work, in sessions made of real parts: what it writes to the debug log, the room of outputs, and models
whose numbers are bad."""

import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.calls.output_budget import WINDOW_FULL_NOTE
from ebbtide.agent.control_calls import NOT_RUN_WINDOW_FULL
from ebbtide.agent.events.session import ContextMeasured, FinalTurn, Noticed, TurnFailed, TurnFinished
from ebbtide.agent.events.view import ContextCompacted
from ebbtide.agent.eviction.settings import CompactionCaps, CompactionSettings
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Message, ToolOutput, Usage, User
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply, Request
from ebbtide.agent.providers.fallbacks import SessionModels
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.tokens.estimate import estimate_messages, estimate_text, estimate_tools
from ebbtide.tools.base import Arguments, Effect, Result, Workspace
from ebbtide.tools.final_report import FinalReport
from tests.kit.session import ASKED, Home, events_of, first_turn

SMALL = CompactionSettings(CompactionCaps(tail=200, ledger=900))
FINAL = CompactionSettings(CompactionCaps(tail=200, ledger=900), on_full="final")


class Produce:
    """A tool that gives back as many words as it is asked for."""

    name = "produce"
    description = "Gives back words."
    schema: Mapping[str, object] = {"type": "object", "properties": {"words": {"type": "integer"}}}
    effect: Effect = "read"

    def __init__(self) -> None:
        self.asked: list[object] = []

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        self.asked.append(arguments["words"])
        return Result("word " * int(str(arguments["words"])))


class Change(Produce):
    """The same as a tool that changes something, so that it runs alone."""

    name = "change"
    effect: Effect = "write"


def ask(tool: str, *words: int, **more: Any) -> dict[str, Any]:
    return {"calls": [{"name": tool, "arguments": {"words": n}} for n in words], **more}


def lines(echo: io.StringIO) -> list[dict[str, Any]]:
    """The lines on the guard, without their times."""
    records = [json.loads(line) for line in echo.getvalue().splitlines()]
    return [
        {name: value for name, value in line.items() if name != "at"}
        for line in records
        if line["topic"].startswith("context-guard/")
    ]


def counters(current: int, pending: int, new: int, schema: int) -> dict[str, int]:
    names = ("currentCtxTokens", "pendingCtxTokens", "newCtxTokens", "schemaCtxTokens")
    return dict(zip(names, (current, pending, new, schema), strict=True))


def evaluate(current: int, pending: int, new: int, schema: int) -> dict[str, Any]:
    return {
        "topic": "context-guard/evaluate",
        "projectedTokens": current + pending + new,
        **counters(current, pending, new, schema),
        "extraTokens": 0,
        "currentReasoningTokens": 0,
    }


def target(model: str, window: int, buffer: int, output: int) -> dict[str, Any]:
    return {
        "topic": "context-guard/evaluate-target",
        "provider": "scripted",
        "model": model,
        "contextWindow": window,
        "bufferTokens": buffer,
        "maxOutputTokens": output,
        "limit": window - buffer - output,
    }


async def test_a_turn_is_written_down_line_by_line(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.agent.prompt.attachments.FULL_TEXT_DIVISOR", 1)  # what is said fills the window
    echo = io.StringIO()
    model = ScriptedProvider.from_replies({"text": "hello"}, {"text": "all there is"}, context_window=4000)
    tiny = ModelTarget("scripted", "tiny", ScriptedProvider.from_replies(context_window=2000).window)
    session = await home.open(
        SessionModels(model, (tiny,)),
        tools=(Produce(), FinalReport()),
        compaction_settings=FINAL,
        debug=DebugLog(echo=echo),
    )
    await events_of(session, "hello")
    first = lines(echo)
    chain = [target("script", 4000, 500, 1000), target("tiny", 2000, 250, 500)]
    own = {"topic": "context-guard/provider-eval", "provider": "scripted", "model": "script"}
    # At first: 14 tokens said, 4 of system text, 132 of tool definitions.
    assert first == [
        {"topic": "context-guard/init-counters", **counters(0, 0, 0, 0)},
        {"topic": "context-guard/loop-init", "seedTokens": 14, **counters(0, 14, 0, 0)},
        {"topic": "context-guard/schema-estimate", "scale": 1.59, **counters(4, 14, 0, 132)},
        evaluate(4, 14, 0, 132),
        *chain,
        {**own, "status": "ok", "blocked": []},
        {"topic": "context-guard/build-metrics", **counters(4, 14, 0, 132)},
    ]
    await events_of(session, "x" * 6700)
    # Then the window is full for the final turn, for which all counters are settled.
    full = [
        {"provider": "scripted", "model": "script", "limit": 2500, "projected": 2417},
        {"provider": "scripted", "model": "tiny", "limit": 1250, "projected": 2417},
    ]
    assert lines(echo)[len(first) :] == [
        {"topic": "context-guard/loop-init", "seedTokens": 2253, **counters(164, 2253, 0, 133)},
        {"topic": "context-guard/schema-estimate", "scale": 1.602, **counters(164, 2253, 0, 133)},
        evaluate(164, 2253, 0, 133),
        *chain,
        {**own, "status": "final", "blocked": full},
        {"topic": "context-guard/enforce", "reason": "context", "blocked": full},
        {"topic": "context-guard/build-metrics", **counters(2417, 0, 0, 133)},
    ]


def with_definition_of(tokens: int) -> Produce:
    """A tool whose definition takes about this many tokens."""
    tool = Produce()
    tool.description = "word " * (tokens * 3 // 5)
    return tool


def enforcements_in(echo: io.StringIO) -> list[tuple[str, int]]:
    """Why each request was not sent as it was, and how many models had no room for it."""
    found = [line for line in lines(echo) if line["topic"] == "context-guard/enforce"]
    return [(line["reason"], len(line["blocked"])) for line in found]


@pytest.mark.parametrize("how", [SMALL, FINAL, replace(SMALL, policy="off")], ids=["compact", "final", "off"])
async def test_where_only_tool_definitions_do_not_fit_the_request_is_sent_with_a_warning(
    home: Home, how: CompactionSettings
) -> None:
    echo = io.StringIO()
    model = ScriptedProvider.from_replies(ask("produce", 5), {"text": "fine"}, context_window=14_000)
    limit, buffer = model.window.available_tokens, model.window.buffer
    session = await home.open(
        model,
        tools=(with_definition_of(limit + buffer // 4), FinalReport()),
        compaction_settings=how,
        debug=DebugLog(echo=echo),
    )
    events = await events_of(session)
    sizes = [event.used for event in events if isinstance(event, ContextMeasured)]
    assert len(sizes) == len(model.requests) == 2
    assert all(limit < size <= limit + buffer for size in sizes)
    state = "still over the limit after compaction" if how.is_automatic else "over the limit"
    warning = f"the request is {state}: about {sizes[0]:,} of {limit:,} tokens. Only the tool definitions"
    notices = [event.text for event in events if isinstance(event, Noticed)]
    assert [warning in notice for notice in notices].count(True) == 1, "told once, not with each step"
    assert [line["status"] for line in lines(echo) if line["topic"] == "context-guard/provider-eval"][-1] == "ok"
    assert events[-1] == TurnFinished("answered", "fine")


async def test_a_request_that_is_too_large_without_its_tools_is_not_sent(home: Home) -> None:
    echo = io.StringIO()
    model = ScriptedProvider.from_replies({"text": "fine"}, context_window=14_000)
    tools = (with_definition_of(2 * model.window.available_tokens),)
    events = await events_of(await home.open(model, tools=tools, compaction_settings=SMALL, debug=DebugLog(echo=echo)))
    assert isinstance(events[-1], TurnFailed)
    assert (events[-1].exit_code, model.requests) == (7, [])
    assert enforcements_in(echo) == [("hard_block", 1), ("exhausted", 1)]


async def test_what_the_guard_does_is_written_down_with_its_reason(home: Home) -> None:
    """Nothing while a request fits; the blocked models once there is no room for it."""
    echo = io.StringIO()
    replies = [ask("produce", 1500) for _ in range(6)]
    summaries = [{"when": ASKED, "text": "<summary>words</summary>"}] * 6
    model = ScriptedProvider.from_replies(*replies, {"text": "done"}, *summaries, context_window=14_000)
    events = await events_of(
        await home.open(model, tools=(Produce(),), compaction_settings=SMALL, debug=DebugLog(echo=echo))
    )
    full = [event for event in events if isinstance(event, ContextCompacted) and event.cause == "full"]
    assert full
    assert [reason for reason, _ in enforcements_in(echo)].count("context") == 0
    assert len(enforcements_in(echo)) == len(full)
    assert "hard_block" in [reason for reason, _ in enforcements_in(echo)]
    for line in lines(echo):
        if line["topic"] == "context-guard/enforce" and line["reason"] == "hard_block":
            (blocked,) = line["blocked"]
            assert (blocked["provider"], blocked["model"]) == ("scripted", "script")
            assert blocked["projected"] > 0.98 * blocked["limit"]


class Thinking(ScriptedProvider):
    """A scripted model that is given a thinking budget, as claude-sonnet-4-5."""

    @property
    def facts(self) -> ModelFacts:
        return replace(super().facts, thinking="budget")


@pytest.mark.parametrize(("effort", "tokens"), [(None, 8192), ("low", 2048), ("max", 65_536), ("none", 0)])
async def test_the_thinking_budget_is_told_but_not_projected(home: Home, effort: str | None, tokens: int) -> None:
    """It is part of the output reserve, of which it takes half at most."""
    echo = io.StringIO()
    model = Thinking.from_replies({"text": "fine"})
    await events_of(await home.open(model, debug=DebugLog(echo=echo), effort=effort))
    (evaluated,) = (line for line in lines(echo) if line["topic"] == "context-guard/evaluate")
    parts = ("currentCtxTokens", "pendingCtxTokens", "newCtxTokens", "extraTokens")
    assert 8_192 <= model.window.output // 2 < 65_536
    assert evaluated["currentReasoningTokens"] == min(tokens, model.window.output // 2)
    assert evaluated["projectedTokens"] == sum(evaluated[part] for part in parts)


async def test_a_session_that_goes_on_begins_with_what_was_counted(home: Home) -> None:
    first = await home.open(
        ScriptedProvider.from_replies({"text": "hello", "usage": {"input": 200, "output": 20}}), tools=(Produce(),)
    )
    await events_of(first, "hello")
    await first.close()
    echo = io.StringIO()
    await home.open(
        ScriptedProvider.from_replies({"text": "ok"}), resume=True, tools=(Produce(),), debug=DebugLog(echo=echo)
    )
    assert lines(echo) == [{"topic": "context-guard/init-counters", **counters(220, 0, 0, 0)}]


async def test_a_huge_output_leaves_room_and_is_not_lost(home: Home) -> None:
    produce, change = Produce(), Change()
    model = ScriptedProvider.from_replies(
        ask("produce", 3000),
        {"calls": [*ask("produce", 4_000_000, 3)["calls"], *ask("change", 5)["calls"]]},
        {"text": "fine"},
        *[{"when": ASKED, "text": "<summary>words</summary>"}] * 3,
        context_window=14_000,
    )
    session, events = await first_turn(home.open(model, tools=(produce, change), compaction_settings=SMALL))
    assert events[-1] == TurnFinished("answered", "fine")
    huge, small, changed = outputs_of(session.history.messages[-2])
    assert await home.archive().read("r2") == b"word " * 4_000_000
    where = 'read_result with ref_id="r2" shows all of it'
    assert f"characters left out: the context window is nearly full; {where} …]" in huge.text
    assert (huge.text[:5], huge.text[-5:], len(huge.text) < 10_000) == ("word ", "word ", True)
    assert (small.text, small.status) == ("word " * 3, "done")
    assert (changed.text, changed.status) == ("word " * 5, "done")
    assert (produce.asked, change.asked) == ([3000, 4_000_000, 3], [5])
    assert not any(isinstance(event, ContextCompacted) for event in events)
    assert all(event.used <= event.effective for event in events if isinstance(event, ContextMeasured))


async def test_where_nothing_makes_room_no_call_is_run_behind_an_output_that_has_none(home: Home) -> None:
    change = Change()
    calls = [*ask("produce", 9000)["calls"], *ask("change", 5)["calls"]]
    model = ScriptedProvider.from_replies({"calls": calls}, {"text": "fine"}, context_window=14_000)
    session = await home.open(model, tools=(Produce(), change), compaction_settings=replace(SMALL, policy="off"))
    events = await events_of(session)
    assert events[-1] == TurnFinished("answered", "fine")
    _, refused = outputs_of(session.history.messages[2])
    assert (refused.text, refused.status, change.asked) == (WINDOW_FULL_NOTE, "failed", [])


async def test_an_output_without_room_ends_in_the_report_where_that_is_wished(home: Home) -> None:
    change = Change()
    model = ScriptedProvider.from_replies(
        {"calls": [*ask("produce", 9000)["calls"], *ask("change", 5)["calls"]]},
        {"text": "so far"},
        context_window=14_000,
    )
    session, events = await first_turn(
        home.open(model, tools=(Produce(), change, FinalReport()), compaction_settings=FINAL)
    )
    (final,) = (event for event in events if isinstance(event, FinalTurn))
    assert final.used < final.effective * 0.95
    assert not any(isinstance(event, ContextCompacted) for event in events)
    _, refused = outputs_of(session.history.messages[2])
    assert (refused.text, refused.status, change.asked) == (NOT_RUN_WINDOW_FULL, "failed", [])
    assert events[-1] == TurnFinished("answered", "so far")


async def test_outputs_that_fit_are_shown_as_they_are(home: Home) -> None:
    model = ScriptedProvider.from_replies(ask("produce", 3000, 400), {"text": "fine"}, context_window=14_000)
    session, events = await first_turn(home.open(model, tools=(Produce(),), compaction_settings=SMALL))
    assert [output.text for output in outputs_of(session.history.messages[2])] == ["word " * 3000, "word " * 400]
    assert not any(isinstance(event, ContextCompacted) for event in events)


def outputs_of(message: Message) -> tuple[ToolOutput, ...]:
    assert isinstance(message, User)
    return message.outputs


class Lying(ScriptedProvider):
    """A scripted model that counts something else than it was sent."""

    factor: float = 1.0

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        async for chunk in super().stream(request):
            if isinstance(chunk, Reply):
                chunk = replace(chunk, usage=Usage(int(chunk.usage.input * self.factor), output=chunk.usage.output))
            yield chunk


@pytest.mark.parametrize(
    ("factor", "notice"),
    [
        (1.0, ""),
        (10.0, ""),
        (0.0, "the provider does not report token counts"),
        (-1.0, "the provider counted -"),
        (1000.0, "its counts are ignored and tokens are estimated"),
    ],
)
async def test_no_request_overflows_the_window_whatever_the_provider_counts(
    home: Home, factor: float, notice: str
) -> None:
    replies = [ask("produce", 700) for _ in range(14)]
    summaries = [{"when": ASKED, "text": "<summary>words</summary>"}] * 14
    model = Lying(ScriptedProvider.from_replies(*replies, {"text": "done"}, *summaries, context_window=14_000).script)
    model.factor = factor
    events = await events_of(await home.open(model, tools=(Produce(),), compaction_settings=SMALL))
    sizes = [
        estimate_text(request.system) + estimate_tools(request.tools) + estimate_messages(request.messages)
        for request in model.requests
    ]
    assert max(sizes) <= model.window.size - model.window.output
    assert events[-1] == TurnFinished("answered", "done")
    notices = [event.text for event in events if isinstance(event, Noticed) and "provider" in event.text]
    assert [notice in text for text in notices] == ([True] if notice else [])
