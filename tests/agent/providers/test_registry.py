"""What is known of models, and which source wins."""

from pathlib import Path

import genai_prices
import pytest
from genai_prices import Usage as PricedUsage

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.messages import Usage
from ebbtide.agent.providers import registry
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.registry import (
    find_registry_facts,
    has_breakpoints,
    registry_models,
    with_server_facts,
    with_third_party_limits,
)
from ebbtide.agent.providers.setup import is_official_server
from ebbtide.agent.providers.wires.ollama import fetch_live_facts
from tests.kit.fake_provider import FakeProvider

TABLES = Path(registry.__file__).parent / "models"
MAIN = (
    ("anthropic", "claude-opus-4-5"), ("anthropic", "claude-sonnet-4-5"), ("anthropic", "claude-haiku-4-5"),
    ("openai", "gpt-5"), ("openai", "gpt-5-mini"), ("openai", "gpt-4.1"), ("openai", "gpt-4o"), ("openai", "o3"),
    ("groq", "openai/gpt-oss-120b"), ("gemini", "gemini-2.5-flash"), ("mistral", "codestral-2508"),
    ("xai", "grok-4.20"), ("cerebras", "gpt-oss-120b"), ("together", "deepseek-ai/DeepSeek-V4.1-Flash"),
    ("fireworks", "accounts/fireworks/models/glm-5p3"),
)  # fmt: skip
THEIRS = {"gemini": "google", "xai": "x-ai"}
"""The providers' names in the independent table."""


@pytest.mark.parametrize(("provider", "name"), MAIN)
def test_prices_agree_with_an_independent_table(provider: str, name: str) -> None:
    prices = find_registry_facts(provider, name).prices
    assert prices is not None
    usage = Usage(input=50_000, cache_read=40_000, output=3_000)
    counted = PricedUsage(input_tokens=usage.prompt, cache_read_tokens=usage.cache_read, output_tokens=usage.output)
    theirs = genai_prices.calc_price(counted, name, provider_id=THEIRS.get(provider, provider))
    assert prices.cost(usage) == pytest.approx(float(theirs.total_price))


def test_what_is_known_of_a_model() -> None:
    facts = find_registry_facts("anthropic", "claude-sonnet-4-5")
    assert (facts.context_window, facts.max_output_tokens, facts.images, facts.thinking) == (
        200_000,
        64_000,
        True,
        "budget",
    )
    assert facts.prices == Prices(input=3, output=15, cache_read=0.3, cache_write=3.75)
    assert facts.is_known
    assert dict(facts.sources)["context_window"] == "registry"


@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("bedrock/anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic/claude-haiku-4-5"),
        ("bedrock/global.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic/claude-haiku-4-5"),
        (
            "bedrock/arn:aws:bedrock:us-east-1:123:inference-profile/global.anthropic.claude-haiku-4-5-20251001-v1:0",
            "anthropic/claude-haiku-4-5",
        ),
        ("vertex/claude-haiku-4-5@20251001", "anthropic/claude-haiku-4-5"),
        ("foundry/claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("azure/gpt-5-mini", "openai/gpt-5-mini"),
    ],
)
def test_a_model_at_a_cloud_is_known(model: str, like: str) -> None:
    facts, usual = (
        find_registry_facts(provider, name) for provider, _, name in (model.partition("/"), like.partition("/"))
    )
    assert (facts.context_window, facts.max_output_tokens, facts.prices) == (
        usual.context_window,
        usual.max_output_tokens,
        usual.prices,
    )


def test_a_profile_of_one_region_of_bedrock_costs_more() -> None:
    regional = find_registry_facts("bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0").prices
    assert regional is not None
    assert regional.input == pytest.approx(1.1)


def test_a_window_that_input_may_not_fill() -> None:
    facts = find_registry_facts("openai", "gpt-5")
    assert (facts.context_window, facts.max_input_tokens, facts.max_output_tokens) == (400_000, 272_000, 128_000)


def test_long_requests_cost_more() -> None:
    prices = find_registry_facts("openai", "gpt-5.4").prices
    assert prices is not None
    assert prices.cost(Usage(input=200_000)) == pytest.approx(0.5)
    assert prices.cost(Usage(input=300_000)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    "name", ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20991231", "claude-sonnet-4-5-latest"]
)
def test_a_dated_name_is_its_base(name: str) -> None:
    dated, base = find_registry_facts("anthropic", name), find_registry_facts("anthropic", "claude-sonnet-4-5")
    assert dated.is_known
    assert dated.name == name
    assert (dated.context_window, dated.prices) == (base.context_window, base.prices)


def test_an_unknown_model_gets_cautious_defaults() -> None:
    facts = find_registry_facts("openai-chat", "my-own")
    assert (facts.context_window, facts.max_output_tokens, facts.prices) == (131_072, 8_192, None)
    assert (facts.images, facts.thinking, facts.is_known) == (False, "none", False)
    assert set(dict(facts.sources).values()) == {"default"}


def test_a_local_model_is_free() -> None:
    facts = find_registry_facts("ollama", "qwen3")
    assert facts.context_window == 32_768
    assert facts.prices is not None
    assert facts.prices.cost(Usage(1_000, 1_000, 1_000, 1_000)) == 0


def test_openai_chat_knows_openais_models() -> None:
    assert find_registry_facts("openai-chat", "gpt-4o").context_window == 128_000


def test_what_the_user_sets_wins() -> None:
    facts = find_registry_facts(
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
    prices = find_registry_facts("anthropic", "claude-sonnet-4-5", {"prices": {"cache_read": 0}}).prices
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
        find_registry_facts("openai-chat", "my-own", overrides)


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
    assert find_registry_facts(provider, name).tool_search == search


def test_a_search_is_used_at_somebody_elses_server_only_where_the_user_says_so() -> None:
    known = find_registry_facts("openai", "gpt-6-sol")
    facts = find_registry_facts("openai", "gpt-6-sol", {"tool_search": "grouped"})
    assert (with_third_party_limits(known).tool_search, with_third_party_limits(facts)) == ("none", facts)
    assert dict(with_third_party_limits(known).sources)["tool_search"] == "default"
    own, other = Endpoint("https://api.openai.com/v1"), Endpoint("http://127.0.0.1:4000/v1")
    assert (is_official_server("openai", own), is_official_server("openai", other)) == (True, False)


def test_the_tables_are_small_and_whole() -> None:
    tables = sorted(TABLES.glob("*.json"))
    assert {table.stem for table in tables} >= {"anthropic", "openai", "groq", "bedrock", "gemini"}
    for table in tables:
        assert table.stat().st_size < 32_000  # it is read at the start of a run
        provider = table.stem
        assert registry_models(provider)
        for name in registry_models(provider):
            facts = find_registry_facts(provider, name)
            assert facts.prices is not None
            assert 0 < facts.max_output_tokens <= facts.context_window
            assert facts.thinking in ("none", "adaptive", "budget", "effort")


@pytest.mark.parametrize(
    ("longest", "set_window", "window"),
    [(40_960, None, 32_768), (8_192, None, 8_192), (262_144, 100_000, 100_000), (8_192, 100_000, 8_192)],
)
def test_a_live_window_is_never_more_than_the_model_has(longest: int, set_window: int | None, window: int) -> None:
    facts = find_registry_facts("ollama", "qwen3", {"context_window": set_window} if set_window else {})
    assert with_server_facts(facts, longest, ("completion",), set_window).context_window == window
    assert with_server_facts(facts, longest, ("completion",)).context_window == window


async def test_a_server_says_what_its_model_can() -> None:
    info = {"general.architecture": "qwen3", "qwen3.context_length": 40_960}
    show = {"model_info": info, "capabilities": ["completion", "tools", "thinking", "vision"]}
    with FakeProvider([], show=show) as server:
        facts = await fetch_live_facts(Endpoint(server.url), find_registry_facts("ollama", "qwen3"), 65_536)
        assert server.others[0].body == {"model": "qwen3"}
    assert (facts.context_window, facts.images, facts.thinking, facts.is_known) == (40_960, True, "adaptive", True)
    assert dict(facts.sources)["context_window"] == "live"


async def test_a_server_that_says_nothing_changes_nothing() -> None:
    known = find_registry_facts("ollama", "qwen3")
    with FakeProvider([]) as server:
        assert await fetch_live_facts(Endpoint(server.url), known) == known
        url = server.url
    assert await fetch_live_facts(Endpoint(url), known) == known
    with FakeProvider([], show={"model_info": None}) as server:
        assert await fetch_live_facts(Endpoint(server.url), known) == known


def test_the_shortest_cached_beginning_and_its_life_go_by_family() -> None:
    models = [
        ("anthropic", "claude-opus-5-5"),
        ("anthropic", "claude-sonnet-5"),
        ("openai", "gpt-6-sol"),
        ("openai", "gpt-5"),
        ("openai-chat", "gpt-6-sol"),
        ("ollama", "qwen3"),
    ]
    facts = [find_registry_facts(*model) for model in models]
    assert [(fact.cache_min_tokens, fact.cache_ttl, fact.renews_cache) for fact in facts] == [
        (4096, 300, True), (2048, 300, True), (1024, 1800, True), (1024, 300, False),
        (1024, 300, False), (1024, 1800, False),
    ]  # fmt: skip


def test_which_models_take_breakpoints() -> None:
    names = ("gpt-5.6", "gpt-5.6-sol", "gpt-6-sol", "gpt-6.1-terra", "gpt-5.5", "gpt-5", "gpt-4o", "gpt-oss-20b", "o3")
    assert [name for name in names if has_breakpoints(name)] == ["gpt-5.6", "gpt-5.6-sol", "gpt-6-sol", "gpt-6.1-terra"]
