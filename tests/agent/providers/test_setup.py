"""Addresses, keys and windows, from configurations as users write them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent.config import Config, load_config
from agent.context.budget import Window
from agent.errors import AuthFailed, ConfigError, UsageError
from agent.providers.base import Endpoint, ModelFacts
from agent.providers.setup import find_endpoint, find_window, first_choice, overrides


def configured(folder: Path, *settings: str, flags: Mapping[str, object] | None = None) -> Config:
    return load_config(folder, {"EBB_HOME": str(folder)}, flags or {}, settings)


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}, Endpoint("https://api.anthropic.com", "k")),
        ("openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://x/v1/"}, Endpoint("https://x/v1", "k")),
        ("openai-chat", {"OPENAI_BASE_URL": "http://localhost:1/v1"}, Endpoint("http://localhost:1/v1")),
        ("openai-chat", {"OPENAI_BASE_URL": "http://[::1]:1/v1"}, Endpoint("http://[::1]:1/v1")),
        ("ollama", {}, Endpoint("http://127.0.0.1:11434")),
        ("ollama", {"OLLAMA_HOST": "far:1234"}, Endpoint("http://far:1234")),
        ("ollama", {"OLLAMA_HOST": "far"}, Endpoint("http://far:11434")),
        ("ollama", {"OLLAMA_HOST": "https://far/ollama/"}, Endpoint("https://far/ollama")),
    ],
)
def test_the_environment_says_where_and_with_which_key(
    name: str, environment: dict[str, str], expected: Endpoint, tmp_path: Path
) -> None:
    assert find_endpoint(name, configured(tmp_path).provider(name), environment) == expected


def test_the_configuration_wins_over_the_environment(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        "providers.anthropic.base_url=https://mine",
        "providers.anthropic.api_key_env=MY_KEY",
        "providers.anthropic.timeout=5",
    )
    environment = {"ANTHROPIC_BASE_URL": "https://theirs", "ANTHROPIC_API_KEY": "theirs", "MY_KEY": "mine"}
    assert find_endpoint("anthropic", config.provider("anthropic"), environment) == Endpoint(
        "https://mine", "mine", 5.0
    )


@pytest.mark.parametrize("url", ["https://api.example", "http://127.0.0.1.example", "http://10.0.0.1"])
def test_a_key_is_needed_anywhere_but_on_this_machine(url: str, tmp_path: Path) -> None:
    with pytest.raises(AuthFailed, match="ANTHROPIC_API_KEY"):
        find_endpoint("anthropic", configured(tmp_path).provider("anthropic"), {"ANTHROPIC_BASE_URL": url})


@pytest.mark.parametrize("url", ["nonsense", "ftp://x", "http://", "http://x:99999", "http://[x"])
def test_a_malformed_url_is_named_with_its_source(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="environment ANTHROPIC_BASE_URL"):
        find_endpoint("anthropic", configured(tmp_path).provider("anthropic"), {"ANTHROPIC_BASE_URL": url})


def test_the_flag_wins_over_the_model_s_window_and_that_over_the_provider_s(tmp_path: Path) -> None:
    of_model = 'providers.ollama.models."a/b".context_window=1000'
    of_provider, general = "providers.ollama.context_window=2000", "agent.context_window=3000"

    def window(*settings: str, flags: Mapping[str, object] | None = None) -> object:
        config = configured(tmp_path, *settings, flags=flags)
        return overrides(config, config.provider("ollama"), "a/b").get("context_window")

    assert window() is None
    assert window(general) == 3000
    assert window(general, of_provider) == 2000
    assert window(general, of_provider, of_model) == 1000
    assert window(of_model, flags={"agent.context_window": 9}) == 9


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (ModelFacts("p", "m", 200_000, 64_000), Window(200_000, 16_384, 8192)),
        (ModelFacts("p", "m", 200_000, 4096), Window(200_000, 4096, 8192)),
        (ModelFacts("p", "m", 8192, 8192), Window(8192, 2048, 1024)),
        (ModelFacts("p", "m", 400_000, 128_000, 272_000), Window(288_384, 16_384, 8192)),
        (ModelFacts("p", "m", 400_000, 128_000, 399_000), Window(400_000, 16_384, 8192)),
    ],
)
def test_the_window_and_its_reserves_follow_what_is_known(facts: ModelFacts, expected: Window, tmp_path: Path) -> None:
    assert find_window(facts, configured(tmp_path)) == expected


def test_a_key_chooses_the_model_of_somebody_who_has_named_none() -> None:
    assert first_choice({"OPENAI_API_KEY": "k"}).startswith("openai/")
    with pytest.raises(UsageError, match="no model is set"):
        first_choice({"ANTHROPIC_API_KEY": ""})
