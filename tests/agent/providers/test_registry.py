"""What is known of models, and which source wins."""

from pathlib import Path

import genai_prices
import pytest
from genai_prices import Usage as PricedUsage

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.messages import Usage
from ebbtide.agent.providers import registry
from ebbtide.agent.providers.base import Endpoint, Prices
from ebbtide.agent.providers.registry import at_other_server, facts_for, has_breakpoints, known_models, with_live
from ebbtide.agent.providers.setup import is_own_server
from ebbtide.agent.providers.wires.ollama import live_facts
from tests.fake_provider import FakeProvider

TABLE = Path(registry.__file__).with_name("models.json")
MAIN = (
    ("anthropic", "claude-opus-4-5"), ("anthropic", "claude-sonnet-4-5"), ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-5"), ("openai", "gpt-5-mini"), ("openai", "gpt-4.1"), ("openai", "gpt-4o"), ("openai", "o3"),
)  # fmt: skip


@pytest.mark.parametrize(("provider", "name"), MAIN)
def test_prices_agree_with_an_independent_table(provider: str, name: str) -> None:
    prices = facts_for(provider, name).prices
    assert prices is not None
    usage = Usage(input=50_000, cache_read=40_000, output=3_000)
    counted = PricedUsage(input_tokens=usage.prompt, cache_read_tokens=usage.cache_read, output_tokens=usage.output)
    theirs = genai_prices.calc_price(counted, name, provider_id=provider)
    assert prices.cost(usage) == pytest.approx(float(theirs.total_price))


def test_what_is_known_of_a_model() -> None:
    facts = facts_for("anthropic", "claude-sonnet-4-5")
    assert (facts.context_window, facts.max_output_tokens, facts.images, facts.thinking) == (
        200_000,
        64_000,
        True,
        "budget",
    )
    assert facts.prices == Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)
    assert facts.known
    assert dict(facts.sources)["context_window"] == "registry"


def test_a_window_that_input_may_not_fill() -> None:
    facts = facts_for("openai", "gpt-5")
    assert (facts.context_window, facts.max_input_tokens, facts.max_output_tokens) == (400_000, 272_000, 128_000)


def test_long_requests_cost_more() -> None:
    prices = facts_for("openai", "gpt-5.4").prices
    assert prices is not None
    assert prices.cost(Usage(input=200_000)) == pytest.approx(0.5)
    assert prices.cost(Usage(input=300_000)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "name", ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20991231", "claude-sonnet-4-5-latest"]
)
def test_a_dated_name_is_its_base(name: str) -> None:
    dated, base = facts_for("anthropic", name), facts_for("anthropic", "claude-sonnet-4-5")
    assert dated.known
    assert dated.name == name
    assert (dated.context_window, dated.prices) == (base.context_window, base.prices)


def test_an_unknown_model_gets_cautious_defaults() -> None:
    facts = facts_for("openai-chat", "my-own")
    assert (facts.context_window, facts.max_output_tokens, facts.prices) == (131_072, 8_192, None)
    assert (facts.images, facts.thinking, facts.known) == (False, "none", False)
    assert set(dict(facts.sources).values()) == {"default"}


def test_a_local_model_is_free() -> None:
    facts = facts_for("ollama", "qwen3")
    assert facts.context_window == 32_768
    assert facts.prices is not None
    assert facts.prices.cost(Usage(1_000, 1_000, 1_000, 1_000)) == 0


def test_openai_chat_knows_openais_models() -> None:
    assert facts_for("openai-chat", "gpt-4o").context_window == 128_000


def test_what_the_user_sets_wins() -> None:
    facts = facts_for(
        "anthropic",
        "claude-sonnet-4-5",
        {"context_window": 1_000_000, "thinking": "none", "prices": {"input": 1, "output": 2}, "tokenizer": "x"},
    )
    assert (facts.context_window, facts.thinking) == (1_000_000, "none")
    assert facts.prices == Prices(input=1, output=2, cache_read=1, cache_write=1)
    assert dict(facts.sources) == {
        "context_window": "config",
        "max_output_tokens": "registry",
        "max_input_tokens": "default",
        "images": "registry",
        "thinking": "config",
        "tool_search": "registry",
        "prices": "config",
        "cache_min_tokens": "default",
        "cache_ttl": "default",
    }


def test_one_price_may_be_set_alone_where_the_others_are_known() -> None:
    prices = facts_for("anthropic", "claude-sonnet-4-5", {"prices": {"cache_read": 0}}).prices
    assert prices == Prices(input=3, output=15, cache_read=0, cache_write=3.75)


@pytest.mark.parametrize(
    "overrides",
    [
        {"context_window": "many"},
        {"context_window": 0},
        {"context_window": True},
        {"images": 1},
        {"thinking": "hard"},
        {"tool_search": "plain"},
        {"prices": 3},
        {"prices": {"input": 1}},
        {"prices": {"input": "1", "output": 2}},
        {"prices": {"input": 1, "output": 2, "tax": 3}},
    ],
)
def test_an_override_that_cannot_be(overrides: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="my-own"):
        facts_for("openai-chat", "my-own", overrides)


@pytest.mark.parametrize(
    ("model", "search"),
    [
        ("anthropic/claude-opus-5-5", "plain"),
        ("anthropic/claude-haiku-4-5-20251001", "plain"),
        ("anthropic/claude-unheard-of", "none"),
        ("openai/gpt-5.4", "grouped"),
        ("openai/gpt-6-sol", "grouped"),
        ("openai/gpt-5.3-codex", "none"),
        ("openai/gpt-5.4-nano", "none"),
        ("openai-chat/gpt-5.4", "none"),
        ("ollama/qwen3", "none"),
    ],
)
def test_which_models_have_a_search_of_their_provider(model: str, search: str) -> None:
    provider, _, name = model.partition("/")
    assert facts_for(provider, name).tool_search == search


def test_a_search_is_used_at_somebody_elses_server_only_where_the_user_says_so() -> None:
    known = facts_for("openai", "gpt-6-sol")
    told = facts_for("openai", "gpt-6-sol", {"tool_search": "grouped"})
    assert (at_other_server(known).tool_search, at_other_server(told)) == ("none", told)
    assert dict(at_other_server(known).sources)["tool_search"] == "default"
    own, other = Endpoint("https://api.openai.com/v1"), Endpoint("http://127.0.0.1:4000/v1")
    assert (is_own_server("openai", own), is_own_server("openai", other)) == (True, False)


def test_the_table_is_small_and_whole() -> None:
    assert len(TABLE.read_bytes()) < 60_000
    for provider in ("anthropic", "openai"):
        for name in known_models(provider):
            facts = facts_for(provider, name)
            assert facts.prices is not None
            assert 0 < facts.max_output_tokens <= facts.context_window
            assert facts.thinking in ("none", "adaptive", "budget", "effort")


@pytest.mark.parametrize(
    ("longest", "set_window", "window"),
    [(40_960, None, 32_768), (8_192, None, 8_192), (262_144, 100_000, 100_000), (8_192, 100_000, 8_192)],
)
def test_a_live_window_is_never_more_than_the_model_has(longest: int, set_window: int | None, window: int) -> None:
    facts = facts_for("ollama", "qwen3", {"context_window": set_window} if set_window else {})
    assert with_live(facts, longest, ("completion",), set_window).context_window == window
    assert with_live(facts, longest, ("completion",)).context_window == window


async def test_a_server_says_what_its_model_can() -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": 40_960}
    show = {"model_info": info, "capabilities": ["completion", "tools", "thinking", "vision"]}
    with FakeProvider([], show=show) as server:
        facts = await live_facts(Endpoint(server.url), facts_for("ollama", "qwen3"), 65_536)
        assert server.others[0].body == {"model": "qwen3"}
    assert (facts.context_window, facts.images, facts.thinking, facts.known) == (40_960, True, "adaptive", True)
    assert dict(facts.sources)["context_window"] == "live"


async def test_a_server_that_says_nothing_changes_nothing() -> None:
    known = facts_for("ollama", "qwen3")
    with FakeProvider([]) as server:
        assert await live_facts(Endpoint(server.url), known) == known
        url = server.url
    assert await live_facts(Endpoint(url), known) == known
    with FakeProvider([], show={"model_info": None}) as server:
        assert await live_facts(Endpoint(server.url), known) == known


def test_the_shortest_cached_beginning_and_its_life_go_by_family() -> None:
    models = [
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-5"),
        ("openai", "gpt-6-sol"),
        ("openai", "gpt-5"),
        ("openai-chat", "gpt-6-sol"),
        ("ollama", "qwen3"),
    ]
    facts = [facts_for(*model) for model in models]
    assert [(fact.cache_min_tokens, fact.cache_ttl, fact.renews_cache) for fact in facts] == [
        (4096, 300, True), (2048, 300, True), (1024, 1800, True), (1024, 300, False),
        (1024, 300, False), (1024, 1800, False),
    ]  # fmt: skip


def test_which_models_take_breakpoints() -> None:
    names = ("gpt-5.6", "gpt-5.6-sol", "gpt-6-sol", "gpt-6.1-terra", "gpt-5.5", "gpt-5", "gpt-4o", "gpt-oss-20b", "o3")
    assert [name for name in names if has_breakpoints(name)] == ["gpt-5.6", "gpt-5.6-sol", "gpt-6-sol", "gpt-6.1-terra"]
