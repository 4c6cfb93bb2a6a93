"""Addresses, keys and windows, from configurations as users write them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.config.load import load_config
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AuthFailed, ConfigError, UsageError
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.registry import find_registry_facts, with_server_facts
from ebbtide.agent.providers.setup import build_window, find_default_model, find_endpoint, registry_overrides
from tests.kit.files import write_file

BUFFER_KEY = "context_window_buffer_tokens"


def configured(folder: Path, *settings: str, flags: Mapping[str, object] | None = None) -> Config:
    return load_config(folder, {"EBB_HOME": str(folder)}, flags or {}, settings)


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, Endpoint("https://api.anthropic.com", "k")),
        ("openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://x/v1/"}, Endpoint("https://x/v1", "k")),
        ("openai-chat", {"OPENAI_BASE_URL": "http://localhost:1/v1"}, Endpoint("http://localhost:1/v1", timeout=600)),
        ("openai-chat", {"OPENAI_BASE_URL": "http://[::1]:1/v1"}, Endpoint("http://[::1]:1/v1", timeout=600)),
        ("ollama", {}, Endpoint("http://127.0.0.1:11434", timeout=600)),
        ("ollama", {"OLLAMA_HOST": "far:1234"}, Endpoint("http://far:1234")),
        ("ollama", {"OLLAMA_HOST": "far"}, Endpoint("http://far:11434")),
        ("ollama", {"OLLAMA_HOST": "https://far/ollama/"}, Endpoint("https://far/ollama")),
    ],
)
def test_the_environment_says_where_and_with_which_key(
    name: str, environment: dict[str, str], expected: Endpoint, tmp_path: Path
) -> None:
    assert find_endpoint(name, configured(tmp_path).provider_config(name), environment) == expected


@pytest.mark.parametrize("around", [" {}\n", "{}\r", "\t{} "])
def test_blanks_around_what_the_environment_says_do_not_count(around: str, tmp_path: Path) -> None:
    """prime-vector/open-agent-spec#91, crewAIInc/crewAI#5999: a valid key from a file with the line ends of Windows, or
    with a newline behind it, is refused."""
    variables = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://x/v1", "OLLAMA_HOST": "far"}
    environment = {name: around.format(value) for name, value in variables.items()}
    for name, endpoint in (("openai", Endpoint("https://x/v1", "k")), ("ollama", Endpoint("http://far:11434"))):
        assert find_endpoint(name, configured(tmp_path).provider_config(name), environment) == endpoint


def test_a_variable_of_blanks_holds_no_key(tmp_path: Path) -> None:
    with pytest.raises(AuthFailed, match="there is no key for openai: "):
        find_endpoint("openai", configured(tmp_path).provider_config("openai"), {"OPENAI_API_KEY": " \r\n"})


def test_the_configuration_wins_over_the_environment(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "providers.anthropic.base_url=https://mine",
        "providers.anthropic.api_key_env=MY_KEY",
        "providers.anthropic.timeout=5",
    )
    environment = {"ANTHROPIC_BASE_URL": "https://theirs", "ANTHROPIC_API_KEY": "theirs", "MY_KEY": "mine"}
    assert find_endpoint("anthropic", config.provider_config("anthropic"), environment) == Endpoint(
        "https://mine", "mine", 5.0
    )


@pytest.mark.parametrize("url", ["https://api.example", "http://127.0.0.1.example", "http://10.0.0.1"])
def test_a_key_is_needed_anywhere_but_on_this_machine(url: str, tmp_path: Path) -> None:
    with pytest.raises(AuthFailed, match="ANTHROPIC_API_KEY"):
        find_endpoint("anthropic", configured(tmp_path).provider_config("anthropic"), {"ANTHROPIC_BASE_URL": url})


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "http://x:99999", "http://[x"])
def test_a_malformed_url_is_named_with_its_source(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="environment ANTHROPIC_BASE_URL"):
        find_endpoint("anthropic", configured(tmp_path).provider_config("anthropic"), {"ANTHROPIC_BASE_URL": url})


def test_the_flag_wins_over_the_model_s_window_and_that_over_the_provider_s(tmp_path: Path) -> None:
    of_model = 'providers.ollama.models."a/b".context_window=1000'
    of_provider, general = "providers.ollama.context_window=2000", "agent.context_window=3000"

    def window(*settings: str, flags: Mapping[str, object] | None = None) -> object:
        config = configured(tmp_path, *settings, flags=flags)
        return registry_overrides(config, config.provider_config("ollama"), "ollama", "a/b").get("context_window")

    assert window() is None
    assert window(general) == 3000
    assert window(general, of_provider) == 2000
    assert window(general, of_provider, of_model) == 1000
    assert window(of_model, flags={"agent.context_window": 9}) == 9


KNOWN = (("context_window", "registry"), ("max_output_tokens", "registry"))
SONNET = ModelFacts("anthropic", "m", 200_000, 64_000, sources=KNOWN)
TIERED = replace(SONNET, context_window=1_000_000, prices=Prices(1, 2, 0.1, 1.25, long_above=100_000))


@pytest.mark.parametrize(
    ("facts", "numbers", "effective"),
    [
        (SONNET, (200_000, 16_384, 8192), 175_424),
        (replace(SONNET, max_output_tokens=4096), (200_000, 4096, 8192), 187_712),
        (replace(SONNET, context_window=8192, max_output_tokens=8192), (8192, 1365, 1024), 5803),
        (replace(SONNET, context_window=16_384, max_output_tokens=8192), (16_384, 4096, 2048), 10_240),
        (replace(SONNET, context_window=4096, max_output_tokens=8192), (4096, 682, 512), 2902),
        (replace(SONNET, context_window=400_000, max_input_tokens=272_000), (400_000, 16_384, 8192), 247_424),
        (replace(SONNET, context_window=400_000, max_input_tokens=500_000), (400_000, 16_384, 8192), 375_424),
        (TIERED, (1_000_000, 16_384, 8192), 75_424),
    ],
)
def test_the_window_and_its_reserves_follow_what_is_known(
    facts: ModelFacts, numbers: tuple[int, int, int], effective: int, tmp_path: Path
) -> None:
    window = build_window(facts, configured(tmp_path))
    assert ((window.size, window.output, window.buffer), window.available_tokens) == (numbers, effective)
    assert window.notices == ()


OF_MODEL = 'providers.anthropic.models."m".{}=1000{}'
OF_PROVIDER, OF_AGENT = "providers.anthropic.{}=2000{}", "agent.{}=3000{}"


@pytest.mark.parametrize(("key", "zeros"), [("context_window", "00"), ("max_output_tokens", ""), (BUFFER_KEY, "")])
@pytest.mark.parametrize(
    ("settings", "flag", "value", "source"),
    [
        ((OF_MODEL, OF_PROVIDER, OF_AGENT), 4000, 4000, "command line"),
        ((OF_MODEL, OF_PROVIDER, OF_AGENT), None, 1000, "providers.anthropic.models.m."),
        ((OF_PROVIDER, OF_AGENT), None, 2000, "providers.anthropic."),
        ((OF_AGENT,), None, 3000, "config.toml"),
        ((), None, None, None),
    ],
)
def test_each_number_comes_from_the_nearest_place_that_sets_it(
    key: str, zeros: str, settings: tuple[str, ...], flag: int | None, value: int | None, source: str | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    write_file(tmp_path / "config" / "config.toml", "\n".join(line.format(key, zeros) for line in settings))
    flags = {} if flag is None else {f"agent.{key}": int(f"{flag}{zeros}")}
    window = build_window(SONNET, configured(tmp_path, flags=flags))
    found = {"context_window": window.size, "max_output_tokens": window.output, BUFFER_KEY: window.buffer}[key]
    if value is None or source is None:
        usual = {"context_window": (200_000, "registry"), "max_output_tokens": (16_384, "registry")}
        assert (found, window.source_of(key)) == usual.get(key, (8192, "default"))
    else:
        assert found == int(f"{value}{zeros}")
        assert source in window.source_of(key)


def test_the_command_line_wins_over_all_files(tmp_path: Path) -> None:
    write_file(tmp_path / "config" / "config.toml", OF_MODEL.format("context_window", "00"))
    window = build_window(SONNET, configured(tmp_path, "agent.context_window=50000"))
    assert (window.size, window.source_of("context_window")) == (50_000, "--config agent.context_window=50000")


def test_a_live_fact_lowers_what_is_set_and_never_raises_it(tmp_path: Path) -> None:
    config = configured(tmp_path, "agent.context_window=50000")
    facts = find_registry_facts(
        "ollama", "m", registry_overrides(config, config.provider_config("ollama"), "ollama", "m")
    )
    longer, shorter = with_server_facts(facts, 131_072, None), with_server_facts(facts, 20_000, None)
    assert [(w.size, w.source_of("context_window")) for w in (build_window(f, config) for f in (longer, shorter))] == [
        (50_000, "--config agent.context_window=50000"),
        (20_000, "live"),
    ]


def test_an_unknown_model_gets_the_usual_window_and_one_warning(tmp_path: Path) -> None:
    window = build_window(find_registry_facts("openai-chat", "mine"), configured(tmp_path))
    assert (window.size, window.output, window.source_of("context_window")) == (131_072, 8192, "default")
    assert ["nothing is known about `openai-chat/mine`" in notice for notice in window.notices] == [True]


def test_a_model_whose_estimates_are_good_keeps_less_free(tmp_path: Path) -> None:
    window = build_window(SONNET, configured(tmp_path), has_accurate_estimates=True)
    assert (window.buffer, window.source_of(BUFFER_KEY)) == (4096, "learned")


def test_who_sets_a_window_pays_for_long_requests(tmp_path: Path) -> None:
    window = build_window(TIERED, configured(tmp_path, "agent.context_window=500000"))
    assert (window.price_tier, window.available_tokens) == (None, 475_424)


def test_reserves_larger_than_the_window_are_made_smaller_and_named(tmp_path: Path) -> None:
    window = build_window(SONNET, configured(tmp_path, "agent.context_window=8000", "agent.max_output_tokens=9000"))
    assert window.available_tokens >= 2000
    assert window.output + window.buffer + window.available_tokens == 8000
    assert "less in a small window" in window.source_of("max_output_tokens")
    assert len(window.notices) == 1


@pytest.mark.parametrize(("ratio", "trigger"), [(0.5, 0.5 * 200_000 / 175_424), (0.9, 0.98)])
def test_a_share_of_the_whole_window_is_converted(ratio: float, trigger: float, tmp_path: Path) -> None:
    window = build_window(SONNET, configured(tmp_path, f"agent.threshold_ratio={ratio}"))
    assert window.compact_trigger == pytest.approx(trigger)


def test_a_key_chooses_the_model_of_somebody_who_has_named_none() -> None:
    assert find_default_model({}, {"OPENAI_API_KEY": "k"}).startswith("openai/")
    with pytest.raises(UsageError, match="no model is set"):
        find_default_model({}, {"ANTHROPIC_API_KEY": ""})
