"""Creates providers from the configuration. The only module that names adapters."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from ebbtide.agent import integration_registry, providers
from ebbtide.agent.budget.cache_lifetime import CacheLifetime, offers_lifetimes
from ebbtide.agent.budget.prefix import digest
from ebbtide.agent.budget.preflight import ModelTarget
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.config.chat_hosts import CHAT_HOSTS
from ebbtide.agent.config.clouds import CLOUDS, SUBSCRIPTIONS
from ebbtide.agent.config.options import PROVIDER_NAMES
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AuthFailed, UsageError
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import Endpoint, KeySource, ModelFacts, Provider
from ebbtide.agent.providers.fallbacks import ConnectModel, SessionModels, later_fallbacks
from ebbtide.agent.providers.registry import find_registry_facts, with_cache_lifetime, with_third_party_limits
from ebbtide.agent.providers.setup import (
    DEFAULT_MODELS,
    build_window,
    dollars_per_search,
    find_endpoint,
    find_setting,
    has_key,
    is_official_server,
    registry_overrides,
    searches_web,
    uses_key_command,
)
from ebbtide.agent.providers.summarisers import CheaperSummarisers, Summarisers
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.providers.tokenizers import load_in_background, load_tokenizer, tokens_per_o200k_token
from ebbtide.agent.tokens.estimate import Estimator, TokenCounter
from ebbtide.agent.tokens.images import ImageRule

WireName = Literal["sdk", "http"]
LOCAL_PROVIDERS = ("ollama", "scripted")
"""Providers that cost no money. No tokenizer is downloaded for them."""
OPEN_MODEL_PROVIDERS = ("openai-chat", "ollama", *CHAT_HOSTS)
"""Providers whose servers may run any model, with any chat template."""
ENOUGH_USAGE_SAMPLES = 20
"""Number of usage samples at which a tokenizer no longer improves the estimates."""
FASTEST_SUMMARISER = "fastest"


def list_available_models(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the configured models, and the default models whose key is set."""
    defaults = [
        model
        for key, model in DEFAULT_MODELS
        if key in environment or has_key(config.providers, environment, key, model)
    ]
    return tuple(dict.fromkeys((*configured_models(config), *defaults)))


def configured_models(config: Config) -> tuple[str, ...]:
    """Return the models named in the user's configuration."""
    models_with_settings = [
        f"{name}/{model_name}" for name, provider in config.providers.items() for model_name in provider.models
    ]
    return tuple(
        dict.fromkeys((*([config.model] if config.model else []), *config.fallback_models, *models_with_settings))
    )


def known_facts_and_window(config: Config, model: str) -> tuple[ModelFacts, Window]:
    """Return the facts about a model that are known offline, and the window computed from them."""
    provider, _, model_name = model.partition("/")
    overrides = (
        registry_overrides(config, config.provider_config(provider), provider, model_name)
        if provider in PROVIDER_NAMES
        else {}
    )
    facts = find_registry_facts(provider, model_name, overrides, config.folders.model_table_folder)
    return facts, build_window(facts, config)


def split_model(model: str) -> tuple[str, str]:
    """Split a model into provider and name. Raises `UsageError` unless it has the form `PROVIDER/NAME`."""
    provider, slash, model_name = model.partition("/")
    if not slash or not model_name or provider not in PROVIDER_NAMES or not model.isprintable():
        raise UsageError(
            f"`{model}` is not a model; write PROVIDER/NAME with one of these providers: {', '.join(PROVIDER_NAMES)}"
        )
    return provider, model_name


async def build_provider(
    config: Config,
    model: str,
    environment: Mapping[str, str],
    *,
    has_accurate_estimates: bool = False,
    secrets: SecretTokens | None = None,
    cache_lifetime: CacheLifetime | None = None,
) -> Provider:
    """Create the provider for a model, ready for requests.

    `has_accurate_estimates`: see `build_window`. `secrets`: hides secrets in requests. `cache_lifetime`: how long the
    provider should keep its cache, if it offers a choice; None for its default. Raises `AuthFailed`. Raises
    `UsageError` if the model is invalid, or if a cost limit is set but its prices are unknown.
    """
    secrets = secrets or SecretTokens(environment)
    provider = await _connect_model(
        config, model, environment, secrets, cache_lifetime, has_accurate_estimates=has_accurate_estimates
    )
    if config.max_cost is not None and provider.facts.prices is None:
        await provider.close()
        raise UsageError(f"the prices of `{model}` are unknown, so `--max-cost` cannot be enforced; leave it out")
    return provider


async def _connect_model(
    config: Config,
    model: str,
    environment: Mapping[str, str],
    secrets: SecretTokens,
    cache_lifetime: CacheLifetime | None,
    *,
    has_accurate_estimates: bool,
) -> Provider:
    provider_name, model_name = split_model(model)
    if provider_name == "scripted":
        scripted = wires.scripted.ScriptedProvider(
            wires.scripted.read_script(Path(model_name)), model_name, secrets=secrets
        )
        scripted.window_override = build_window(scripted.facts, config, has_accurate_estimates=has_accurate_estimates)
        return scripted
    provider_config = config.provider_config(provider_name)
    endpoint, key_source = await _endpoint_with_key(provider_name, config, environment)
    overrides = registry_overrides(config, provider_config, provider_name, model_name)
    facts = find_registry_facts(provider_name, model_name, overrides, config.folders.model_table_folder)
    is_official = is_official_server(provider_name, endpoint)
    facts = facts if is_official else with_third_party_limits(facts)
    if cache_lifetime is not None and is_official and offers_lifetimes(provider_name):
        facts = with_cache_lifetime(facts, cache_lifetime)
    server_digest = digest(endpoint.base_url.encode("utf-8", "surrogatepass"))
    temperature_setting = find_setting(config, provider_name, model_name, "temperature")
    facts = replace(
        facts,
        server_digest=server_digest,
        searches_web=searches_web(provider_name, model_name, config, environment),
        dollars_per_search=dollars_per_search(model),
        writes_calls_as_text=should_read_text_calls(config, provider_name, model_name),
        may_repeat=provider_name in OPEN_MODEL_PROVIDERS,
        temperature=None if temperature_setting is None else temperature_setting.value,
    )
    wire: WireName = "http" if provider_config.wire == "auto" else provider_config.wire

    def build_facts_window(facts: ModelFacts) -> Window:
        return build_window(facts, config, has_accurate_estimates=has_accurate_estimates)

    return await _create_wire_provider(provider_name, facts, endpoint, wire, build_facts_window, secrets, key_source)


async def _endpoint_with_key(
    name: str, config: Config, environment: Mapping[str, str]
) -> tuple[Endpoint, KeySource | None]:
    """Return a provider's endpoint, including its key. If the key comes from a command or a sign-in, also return that
    source. Raises `AuthFailed` and `ConfigError`."""
    provider_config = config.provider_config(name)
    endpoint = find_endpoint(name, provider_config, environment)
    if name in SUBSCRIPTIONS and endpoint.key is None and not uses_key_command(name, provider_config, environment):
        source = _signed_in_keys(name, config)
        return replace(endpoint, key=await source.get_key()), source
    if provider_config.key_command is None or not uses_key_command(name, provider_config, environment):
        return endpoint, None
    key_source = providers.key_command.shared_key_command(
        name, provider_config.key_command, environment, config.folders.home
    )
    return replace(endpoint, key=await key_source.get_key()), key_source


def _signed_in_keys(name: str, config: Config) -> KeySource:
    """Return the token source for a provider. Raises `AuthFailed` if this installation cannot sign in."""
    path = integration_registry.SIGN_INS.get(name)
    if path is None:
        raise AuthFailed(f"this installation cannot sign in to {SUBSCRIPTIONS[name].title}. Use another model.")
    open_source = cast(Callable[[str, Path], KeySource], integration_registry.load_integration(path))
    return open_source(name, config.folders.config)


def should_read_text_calls(config: Config, provider: str, model: str) -> bool:
    """Whether calls that a model writes as text are run as tool calls. By default, this applies to providers whose
    servers may not parse them."""
    setting = find_setting(config, provider, model, "tool_calls")
    mode = "auto" if setting is None else setting.value
    return provider in OPEN_MODEL_PROVIDERS if mode == "auto" else mode == "text"


async def _create_wire_provider(
    provider_name: str,
    facts: ModelFacts,
    endpoint: Endpoint,
    wire: WireName,
    build_facts_window: Callable[[ModelFacts], Window],
    secrets: SecretTokens,
    key_source: KeySource | None,
) -> Provider:
    match provider_name:
        case "anthropic":
            adapter = wires.anthropic.ADAPTER
        case "openai":
            adapter = wires.openai_responses.ADAPTER
        case _ if provider_name == "openai-chat" or provider_name in CHAT_HOSTS:
            adapter = wires.openai_chat.ADAPTER
            facts = await wires.server_facts.add_server_facts(endpoint, facts)
        case _ if provider_name in CLOUDS:
            adapter, endpoint, wire = wires.clouds.cloud_adapter(provider_name, facts.name, endpoint, wire)
        case "copilot":
            adapter, facts = await wires.copilot.copilot_adapter(endpoint, facts)
            wire = "http"
        case "chatgpt":
            adapter, facts = wires.chatgpt.ADAPTER, await wires.chatgpt.add_plan_facts(endpoint, facts)
            wire = "http"
        case "ollama":
            adapter = wires.ollama.ADAPTER
            facts = await wires.ollama.fetch_live_facts(endpoint, facts)
        case _:
            raise AssertionError(f"{provider_name} has no adapter")
    window = build_facts_window(facts)

    def create_search_provider() -> wires.adapter.WireProvider | None:
        search_adapter = wires.search_adapters.search_adapter(provider_name, facts.name)
        if search_adapter is None:
            return None
        return wires.adapter.WireProvider(search_adapter, facts, window, endpoint, "http", secrets, key_source)

    return wires.adapter.WireProvider(
        adapter, facts, window, endpoint, wire, secrets, key_source, create_search_provider
    )


async def fetch_subscription_models(
    name: str, config: Config, environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return the models that a subscription offers, with facts in the registry's format; empty if the server does not
    list them. Raises `AuthFailed`."""
    endpoint, _ = await _endpoint_with_key(name, config, environment)
    if name == "copilot":
        return await wires.copilot.fetch_models(endpoint)
    return await wires.chatgpt.fetch_models(endpoint)


async def check_provider(
    name: str, config: Config, environment: Mapping[str, str], timeout_s: float
) -> tuple[str, int, float]:
    """Check a provider by requesting its list of models, which is free. Return the host, the HTTP status and the time
    in milliseconds. Raises `TimeoutError` if the server does not respond in time, and `AgentError` if it is unreachable
    or rejects the key."""
    endpoint, _ = await _endpoint_with_key(name, config, environment)
    async with asyncio.timeout(timeout_s):
        reached = await wires.reachability.check_server(name, endpoint)
    return reached.host, reached.status, reached.milliseconds


def describe_proxy(url: str) -> str | None:
    """Return a description of the proxy that the environment sets for a URL; None if there is none. Raises
    `RouteFailed` if the setting is invalid."""
    wires.proxies.check_proxy(url)
    proxy = wires.proxies.find_proxy(url)
    return None if proxy is None else proxy.description


def create_token_meter(config: Config, model: str, estimator: Estimator, *, is_interactive: bool) -> TokenMeter:
    """Create the meter of a session. A configured tokenizer is loaded now, from a local vocabulary. An interactive
    session with few usage samples downloads and loads the default tokenizer in the background."""
    provider, _, name = model.partition("/")
    images: ImageRule = "tiles" if provider in ("openai", "openai-chat", "chatgpt") else "area"
    folder = config.folders.data / "vocabularies"
    tokenizer_setting = find_setting(config, provider, name, "tokenizer")
    if tokenizer_setting is not None:
        return TokenMeter(estimator, TokenCounter(load_tokenizer(str(tokenizer_setting.value), folder, name), images))
    if not is_interactive or provider in LOCAL_PROVIDERS or estimator.sample_count >= ENOUGH_USAGE_SAMPLES:
        return TokenMeter(estimator, TokenCounter(images=images))

    def load(meter: TokenMeter) -> None:
        factor = tokens_per_o200k_token(provider, name)
        load_in_background(
            "o200k_base",
            folder,
            lambda count_tokens: meter.schedule_counter(TokenCounter(lambda text: factor * count_tokens(text), images)),
        )

    return TokenMeter(estimator, TokenCounter(images=images), load)


def build_summarisers(
    config: Config,
    environment: Mapping[str, str],
    get_own_facts: Callable[[], ModelFacts],
    *,
    secrets: SecretTokens | None = None,
) -> Summarisers | CheaperSummarisers:
    """Return the models that write summaries: the configured model or, for `fastest`, all available models ordered by
    speed. If none is configured, a model cheaper than the session's own is used if there is one."""
    chosen = config.summary_model

    async def connect(model: str) -> Provider:
        return await build_provider(config, model, environment, secrets=secrets)

    if chosen is None:
        return CheaperSummarisers(get_own_facts, summariser_candidates(config), connect)
    if chosen != FASTEST_SUMMARISER:
        return Summarisers([chosen], connect)
    return Summarisers(list_available_models(config, environment), connect, orders_by_speed=True)


def summariser_candidates(config: Config) -> tuple[ModelFacts, ...]:
    """Return the configured models that could write summaries in place of the session's own. Local models are excluded
    because they cost time instead of money; the user can still choose one with `summary_model`."""
    remote_models = [model for model in configured_models(config) if model.partition("/")[0] not in LOCAL_PROVIDERS]
    return tuple(known_facts_and_window(config, model)[0] for model in remote_models)


def create_session_models(config: Config, model: str, provider: Provider, connect: ConnectModel) -> SessionModels:
    """Return a session's model with its fallbacks. Raises `UsageError` for an invalid model."""
    return SessionModels(provider, configured_fallbacks(config, model), connect)


def configured_fallbacks(config: Config, model: str) -> tuple[ModelTarget, ...]:
    """Return the fallbacks of a session's model, with their windows as known offline. Raises `UsageError` for an
    invalid model."""
    for name in config.fallback_models:
        split_model(name)
    facts_and_windows = [
        known_facts_and_window(config, name) for name in later_fallbacks(model, config.fallback_models)
    ]
    return tuple(ModelTarget(facts.provider, facts.name, window) for facts, window in facts_and_windows)
