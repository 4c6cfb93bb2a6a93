"""Summaries by a cheaper model, in whole sessions with scripted ones."""

import asyncio
from pathlib import Path

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.summary_cost import SummaryJob
from ebbtide.agent.compaction.rewrite import ignore_event
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import AuthFailed, UsageError
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.events.view import CompactionFailed, ContextCompacted
from ebbtide.agent.providers import summarisers
from ebbtide.agent.providers.base import ModelFacts, Provider
from ebbtide.agent.providers.factory import build_summarisers, known_facts_and_window
from ebbtide.agent.providers.learned_limits import SummariserSource
from ebbtide.agent.providers.summarisers import CheaperSummarisers
from ebbtide.agent.providers.wires.scripted import Script, ScriptedProvider, ScriptedReply
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.files import write_file
from tests.kit.session import ASKED, Home, events_of, first_turn

DEAR = Prices(15.0, 75.0, 1.5, 18.75)
CHEAP = Prices(0.1, 0.4, 0.01, 0.1)
OWN = ModelFacts("scripted", "script", 200_000, 16_384, prices=DEAR)
SMALL = ModelFacts("scripted", "small", 128_000, 16_384, prices=CHEAP)
SHARED = {"when": ASKED, "text": "<summary>by the model itself</summary>"}


def writer(*replies: ScriptedReply) -> ScriptedProvider:
    return ScriptedProvider(Script(replies, 128_000), "small")


async def compacted(home: Home, writers: SummariserSource) -> tuple[ScriptedProvider, list[Event], str]:
    """The session's own model, what was told of the compaction, and the summary."""
    provider = ScriptedProvider.from_replies({"text": "word " * 900}, {"text": "short"}, SHARED)
    session, _ = await first_turn(home.open(provider, summarisers=writers), "one")
    await events_of(session, "two")
    events: list[Event] = []
    result = await session.compact(None, events.append)
    assert result.strategies == ("summary",)
    await session.close()
    received: list[Event] = []
    received += (event for event in events if isinstance(event, CompactionFailed | ContextCompacted | Noticed))
    return provider, received, session.history.summary.summary


@pytest.fixture
def asked() -> list[str]:
    """The models that were connected to."""
    return []


def market(asked: list[str], model: ScriptedProvider | None, *others: ModelFacts) -> CheaperSummarisers:
    async def connect(name: str) -> Provider:
        asked.append(name)
        if model is None:
            raise AuthFailed(f"no key for {name}")
        return model

    return CheaperSummarisers(lambda: OWN, others, connect)


async def test_the_cheaper_model_writes_and_the_receipt_says_so(home: Home, asked: list[str]) -> None:
    small = writer(ScriptedReply("<summary>by the small one</summary>"))
    provider, events, summary = await compacted(home, market(asked, small, SMALL))
    assert (asked, summary, len(provider.requests)) == (["scripted/small"], "by the small one", 2)
    assert [(e.model, e.cost) for e in events if isinstance(e, ContextCompacted)] == [("scripted/small", 0.0)]


@pytest.mark.parametrize("reply", [ScriptedReply("no"), ScriptedReply(error="auth"), ScriptedReply(error="overflow")])
async def test_when_it_fails_the_model_itself_is_asked(home: Home, asked: list[str], reply: ScriptedReply) -> None:
    _, events, summary = await compacted(home, market(asked, writer(reply), SMALL))
    assert (asked, summary) == (["scripted/small"], "by the model itself")
    assert [e.model for e in events if isinstance(e, CompactionFailed)] == ["scripted/small"]
    assert [e.model for e in events if isinstance(e, ContextCompacted)] == ["scripted/script"]


async def test_one_that_cannot_be_reached_is_left_out(home: Home, asked: list[str]) -> None:
    writers = market(asked, None, SMALL)
    _, events, summary = await compacted(home, writers)
    assert (asked, summary, len(events)) == (["scripted/small"], "by the model itself", 1)
    assert await writers(SummaryJob(120_000, 40_000), ignore_event) == ()
    assert asked == ["scripted/small"]


async def test_nobody_is_connected_where_no_price_wins(home: Home, asked: list[str]) -> None:
    unknown = ModelFacts("scripted", "unknown", 128_000, 16_384)
    _, _, summary = await compacted(home, market(asked, None, unknown, OWN))
    assert (asked, summary) == ([], "by the model itself")


async def test_a_writer_that_stays_silent_is_named_and_gives_way(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server on this machine takes the request and says nothing: its wire would wait for ten minutes."""
    monkeypatch.setattr(summarisers, "WAIT_NOTICE_DELAY_S", 0.05)
    monkeypatch.setattr(summarisers, "SILENCE_TIMEOUT_S", 0.2)
    with FakeProvider([Turn(fault="silent")]) as server:
        settings = (f"providers.openai-chat.base_url={server.url}/v1", "agent.summary_model=openai-chat/mute")
        config = load_config(tmp_path, {"EBB_HOME": str(tmp_path)}, {}, settings)
        writers = build_summarisers(config, {}, lambda: OWN)
        _, events, summary = await compacted(home, writers)
        await asyncio.to_thread(server.gone.wait)
        await writers.close()
    assert summary == "by the model itself"
    waits, failed = events[:2]
    assert isinstance(waits, Noticed)
    assert waits.text.startswith("`openai-chat/mute` has not responded for ")
    assert isinstance(failed, CompactionFailed)
    assert (failed.model, failed.reason[:12]) == ("openai-chat/mute", "no response ")


async def test_only_models_that_the_configuration_names_are_candidates(tmp_path: Path) -> None:
    environment = {"EBB_HOME": str(tmp_path), "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    write_file(
        tmp_path / "config" / "config.toml",
        "[providers.openai.models.small]\ncontext_window = 200000\n"
        "prices = { input = 0.1, output = 0.4, cache_read = 0.01, cache_write = 0.1 }\n"
        "[providers.ollama.models.local]\ncontext_window = 200000\n",
    )
    config = load_config(tmp_path, environment, {"agent.model": "anthropic/claude-opus-4-5"})
    own, _ = known_facts_and_window(config, "anthropic/claude-opus-4-5")
    assert own.prices is not None
    writers = build_summarisers(config, environment, lambda: own)
    found = await writers(SummaryJob(120_000, 40_000), ignore_event)
    assert [provider.facts.id for provider in found] == ["openai/small"]
    await writers.close()


async def test_while_the_cost_is_limited_no_summary_is_written_for_an_unknown_price(tmp_path: Path) -> None:
    environment = {"EBB_HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}
    settings = ("agent.summary_model=anthropic/nobody-knows-it",)
    free = load_config(tmp_path, environment, {}, settings)
    writers = build_summarisers(free, environment, lambda: OWN)
    assert [provider.facts.id for provider in await writers(SummaryJob(1, 1), ignore_event)] == [
        "anthropic/nobody-knows-it"
    ]
    await writers.close()
    limited = load_config(tmp_path, environment, {"agent.max_cost": 1.0}, settings)
    with pytest.raises(UsageError, match="`--max-cost` cannot be enforced"):
        await build_summarisers(limited, environment, lambda: OWN)(SummaryJob(1, 1), ignore_event)
