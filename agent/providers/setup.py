"""Address, key and window of a provider, taken from the configuration."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ebbtide.agent.budget.request_budget import (
    DEFAULT_BUFFER_TOKENS,
    PRECISE_BUFFER_TOKENS,
    Window,
    default_output_reserve,
    fit_reserves,
)
from ebbtide.agent.config.chat_hosts import CHAT_HOSTS
from ebbtide.agent.config.clouds import CLOUDS, GATEWAY_KEY_VARIABLE, SUBSCRIPTIONS, cloud_base_url, uses_gateway
from ebbtide.agent.config.values import EDITOR_SOURCE, Config, ProviderConfig
from ebbtide.agent.errors import AuthFailed, ConfigError, UsageError
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.keys import is_signed_in, read_stored_key
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.redaction import redact_url

DEFAULT_OUTPUT_RESERVE_TOKENS = 16_384
"""Default number of tokens reserved for a reply, or the model's output limit if that is lower."""

REQUEST_TIMEOUT_S = 120.0
"""Seconds of silence after which a request fails."""
LOCAL_REQUEST_TIMEOUT_S = 600.0
"""Seconds of silence after which a request to a server on this machine fails. Such a server may take minutes to read a
long request before it responds."""

_OVERRIDING_SOURCES = ("command line", "--config", EDITOR_SOURCE)
"""Sources that take precedence over all files."""

_BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openai-chat": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "ollama": ("OLLAMA_HOST", "http://127.0.0.1:11434"),
    **{name: ("", host.base_url) for name, host in CHAT_HOSTS.items()},
    **{name: (cloud.base_url_variable, "") for name, cloud in CLOUDS.items()},
    **{name: ("", subscription.base_url) for name, subscription in SUBSCRIPTIONS.items()},
}
_KEY_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
    **{name: host.key_variable for name, host in CHAT_HOSTS.items()},
    **{name: cloud.key_variable for name, cloud in CLOUDS.items() if cloud.key_variable},
    **{name: subscription.key_variable for name, subscription in SUBSCRIPTIONS.items() if subscription.key_variable},
}
WEB_SEARCH_MODELS: Mapping[str, str] = {
    "anthropic": "",
    "gemini": r"(?:models/)?gemini-(?!.*(?:computer-use|exp-|gemma))",
    "openai": "",
    "openrouter": "",
    "xai": r"grok-(?:[4-9]|\d\d)",
}
"""Providers whose API offers web search as an option, each with a pattern for the start of the names of its models that
search; empty for all. Compatible servers seldom support it."""
_DOLLARS_PER_SEARCH = (("gemini/gemini-2", 0.035), ("gemini/", 0.014), ("xai/", 0.005))
"""Prices of a web search by the start of the model's id, beyond what is free. Anthropic and OpenAI charge $0.01, and
OpenRouter states the cost of each request."""
LOCAL_CHAT_SERVERS = (
    ("LM Studio", "http://127.0.0.1:1234/v1", "lms server start --port {}"),
    ("llama.cpp", "http://127.0.0.1:8080/v1", "llama-server -m MODEL.gguf --port {}"),
    ("vLLM", "http://127.0.0.1:8000/v1", "vllm serve MODEL --port {}"),
)
"""Servers that offer OpenAI's chat API. Each has a name, a default address and the command that starts it on a port."""
DEFAULT_MODELS = (("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"), ("OPENAI_API_KEY", "openai/gpt-6-sol"))
"""Default models, each with the environment variable of its key."""


def find_default_model(providers: Mapping[str, ProviderConfig], environment: Mapping[str, str]) -> str:
    """Return the default model for which a key is set. Raises `UsageError` if there is none."""
    for key, model in DEFAULT_MODELS:
        if has_key(providers, environment, key, model):
            return model
    raise UsageError(
        "no model is set; name one with `-m PROVIDER/NAME` (such as `-m ollama/qwen3`), set `agent.model` in the "
        "configuration, store a key with `ebb key set anthropic` (or openai), or set ANTHROPIC_API_KEY or "
        "OPENAI_API_KEY. `ebb demo` works without a model"
    )


def has_key(providers: Mapping[str, ProviderConfig], environment: Mapping[str, str], variable: str, model: str) -> bool:
    """Whether a model has a key: in its environment variable, from a command (which is not run), or in the key
    store."""
    name = model.partition("/")[0]
    has_command = name in providers and providers[name].key_command is not None
    return bool(_stripped_value(environment, variable) or has_command or read_stored_key(environment, name))


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """A setting that applies to a model, and where it was set."""

    value: Any
    source: str


def find_setting(config: Config, provider: str, model: str, key: str) -> ModelSetting | None:
    """Find the setting that applies to a model. It is looked up for the model, then for its provider, then in
    `[agent]`. None if it is not set. The command line and an editor's options take precedence over all files."""
    provider_config, agent_key = config.provider_config(provider), f"agent.{key}"
    candidates = [
        (provider_config.models.get(model, {}).get(key), f"providers.{provider}.models.{model}.{key}"),
        (getattr(provider_config, key, None), f"providers.{provider}.{key}"),
        (getattr(config, key, None), agent_key),
    ]
    if config.sources.get(agent_key) in ("command line", EDITOR_SOURCE):
        candidates.reverse()
    model_settings = [
        ModelSetting(
            value, config.sources[key_path] if key_path == agent_key else f"{key_path} in {config.sources[key_path]}"
        )
        for value, key_path in candidates
        if value is not None
    ]
    overriding_settings = [
        setting for setting in model_settings if any(source in setting.source for source in _OVERRIDING_SOURCES)
    ]
    return next(iter([*overriding_settings, *model_settings]), None)


def registry_overrides(config: Config, provider_config: ProviderConfig, provider: str, model: str) -> dict[str, object]:
    """Return the settings that override the registry's facts."""
    overrides = dict(provider_config.models.get(model, {}))
    window_setting = find_setting(config, provider, model, "context_window")
    if window_setting is not None:
        overrides["context_window"] = window_setting.value
    return overrides


def build_window(facts: ModelFacts, config: Config, *, has_accurate_estimates: bool = False) -> Window:
    """Build a session's window, with its reserves and the source of each number. `has_accurate_estimates`: past
    estimates for this model were accurate, so a smaller safety margin is enough."""
    fact_sources = dict(facts.sources)
    size_setting = _window_size(facts, config)
    output_setting = find_setting(config, facts.provider, facts.name, "max_output_tokens")
    output_value = (
        ModelSetting(
            min(facts.max_output_tokens, DEFAULT_OUTPUT_RESERVE_TOKENS, default_output_reserve(size_setting.value)),
            fact_sources.get("max_output_tokens", "default"),
        )
        if output_setting is None
        else ModelSetting(min(output_setting.value, facts.max_output_tokens), output_setting.source)
        if fact_sources.get("max_output_tokens") in ("registry", "live")
        else output_setting
    )
    buffer_value = find_setting(config, facts.provider, facts.name, "context_window_buffer_tokens") or ModelSetting(
        min(PRECISE_BUFFER_TOKENS if has_accurate_estimates else DEFAULT_BUFFER_TOKENS, size_setting.value // 8),
        "learned" if has_accurate_estimates else "default",
    )
    # A user who sets the window accepts the higher price of long requests. The default window stays within the standard
    # price tier.
    price_tier = (
        facts.prices.long_above if facts.prices and size_setting.source in ("registry", "live", "default") else None
    )
    window = Window(
        size_setting.value, output_value.value, buffer_value.value, max_input=facts.max_input_tokens,
        price_tier=price_tier, sources=(("context_window", size_setting.source),),
    )  # fmt: skip
    limit = min(tokens for tokens in (window.size, window.max_input, window.price_tier) if tokens is not None)
    output_reserve, buffer_reserve = fit_reserves(limit, output_value.value, buffer_value.value)
    shrunk_note = (
        ""
        if (output_reserve, buffer_reserve) == (output_value.value, buffer_value.value)
        else ", less in a small window"
    )
    sources = (
        ("context_window", size_setting.source),
        ("max_output_tokens", output_value.source + shrunk_note),
        ("context_window_buffer_tokens", buffer_value.source + shrunk_note),
        *((("max_input_tokens", fact_sources.get("max_input_tokens", "registry")),) if facts.max_input_tokens else ()),
        *((("price_tier", fact_sources.get("prices", "registry")),) if price_tier else ()),
    )
    window = replace(window, output=output_reserve, buffer=buffer_reserve, sources=sources)
    notices = tuple(_notices(facts, size_setting, (output_setting,), bool(shrunk_note)))
    return replace(window, **_trigger_shares(window, config), notices=notices)


def _window_size(facts: ModelFacts, config: Config) -> ModelSetting:
    """Return the window size. The server's value can lower the user's setting, but never raise it."""
    source = dict(facts.sources).get("context_window", "default")
    setting = find_setting(config, facts.provider, facts.name, "context_window")
    if setting is None:
        return ModelSetting(facts.context_window, source)
    if source == "live" and facts.context_window < setting.value:
        return ModelSetting(facts.context_window, "live")
    return setting


def _trigger_shares(window: Window, config: Config) -> dict[str, Any]:
    """Return the compaction and blocking triggers as shares of the effective window. `threshold_ratio` is converted,
    because it refers to the whole window. It cannot exceed the blocking trigger."""
    if config.threshold_ratio is None:
        return {"compact_trigger": config.compact_trigger, "hard_block": config.hard_block}
    share = config.threshold_ratio * window.size / max(window.available_tokens, 1)
    return {"compact_trigger": min(share, config.hard_block), "hard_block": config.hard_block}


def _notices(
    facts: ModelFacts, size_setting: ModelSetting, output_settings: tuple[ModelSetting | None, ...], is_shrunk: bool
) -> Iterator[str]:
    if size_setting.source == "default" and facts.provider != "ollama":
        yield (
            f"nothing is known about `{facts.id}`: its window is assumed to be {size_setting.value:,} tokens, its "
            f"replies to be at most {facts.max_output_tokens:,}, and its price is unknown; set `context_window`, "
            f'`max_output_tokens` and `prices` in `[providers.{facts.provider}.models."{facts.name}"]`'
        )
    if is_shrunk and any(output_settings):
        yield f"the window of `{facts.id}` is too small for the configured reserves: they were reduced to fit"


def find_endpoint(name: str, provider_config: ProviderConfig, environment: Mapping[str, str]) -> Endpoint:
    """Return a provider's address and key. The key is None if it comes from a sign-in or a command (see
    `uses_key_command`); neither is used here. Raises `ConfigError` for a malformed URL, and `AuthFailed` if a required
    key is missing. Ollama, clouds with their own sign-in and servers on this machine do not need a key."""
    url = find_base_url(name, provider_config, environment)
    host = urlsplit(url).hostname or ""
    key_name = key_variable(name, provider_config)
    key = _stripped_value(environment, key_name or "")
    has_command = uses_key_command(name, provider_config, environment)
    if not key and not has_command:
        key = read_stored_key(environment, name, url) or ""
    if not key and not has_command and name in SUBSCRIPTIONS and not is_signed_in(environment, name, url):
        raise _not_signed_in(name, key_name)
    needs_key = name != "ollama" and name not in CLOUDS and name not in SUBSCRIPTIONS
    if not key and not has_command and needs_key and not is_loopback(host):
        text = f"there is no key for {name}: type `/key {name}` in a session, run `ebb key set {name}`, "
        text += f"or set the environment variable {key_name}"
        usable_defaults = [(key, model) for key, model in DEFAULT_MODELS if _stripped_value(environment, key)]
        raise AuthFailed(text + "".join(f"; {key} is set: `-m {model}` uses it" for key, model in usable_defaults[:1]))
    default_timeout = LOCAL_REQUEST_TIMEOUT_S if is_loopback(host) else REQUEST_TIMEOUT_S
    is_gateway = name in CLOUDS and _provider_uses_gateway(name, provider_config, environment)
    if is_gateway and not has_command:
        key = key or _stripped_value(environment, GATEWAY_KEY_VARIABLE)
    return Endpoint(url.rstrip("/"), key or None, provider_config.timeout or default_timeout, is_gateway=is_gateway)


def _provider_uses_gateway(name: str, settings: ProviderConfig, environment: Mapping[str, str]) -> bool:
    has_address = bool(settings.base_url or _stripped_value(environment, _BASE_URLS[name][0]))
    return uses_gateway(name, environment, has_address=has_address)


def _not_signed_in(name: str, key_name: str | None) -> AuthFailed:
    alternative = f", or set the environment variable {key_name}" if key_name else ""
    return AuthFailed(
        f"you are not signed in to {SUBSCRIPTIONS[name].title}: run `ebb key sign-in {name}` in a shell{alternative}",
        cause="sign_in",
    )


def uses_key_command(name: str, provider_config: ProviderConfig, environment: Mapping[str, str]) -> bool:
    """Whether a provider's key comes from its `key_command`. True if that is set and the key's environment variable is
    not, even if a key is stored."""
    return provider_config.key_command is not None and not _stripped_value(
        environment, key_variable(name, provider_config) or ""
    )


def _stripped_value(environment: Mapping[str, str], variable: str) -> str:
    """Return a variable's value without surrounding whitespace. Files written on Windows leave a carriage return, and
    pasted text leaves a newline."""
    return environment.get(variable, "").strip()


def find_base_url(name: str, provider_config: ProviderConfig, environment: Mapping[str, str]) -> str:
    """Return a provider's address. Raises `ConfigError` for a malformed URL, and if a variable that a cloud needs is
    missing."""
    variable, default_url = _BASE_URLS[name]
    url, source = default_url, "the default"
    if environment_url := _stripped_value(environment, variable):
        url, source = environment_url, f"environment {variable}"
    if provider_config.base_url:
        url, source = provider_config.base_url, f"`providers.{name}.base_url`"
    if name in CLOUDS:
        url = cloud_base_url(name, url, environment)
    if name == "ollama" and "://" not in url:
        # As in Ollama's own programs, the default port is Ollama's instead of 80.
        url = f"http://{url}" if re.search(r":\d+$", url) else f"http://{url}:11434"
    _validate_url(url, source)
    return url


def is_official_server(name: str, endpoint: Endpoint) -> bool:
    """Whether an endpoint is the provider's official server."""
    return endpoint.base_url == _BASE_URLS[name][1]


def dollars_per_search(model: str) -> float:
    """Return the price of one web search by a model's provider. `model`: `provider/name`."""
    return next((price for start, price in _DOLLARS_PER_SEARCH if model.startswith(start)), 0.01)


def searches_web(name: str, model: str, config: Config, environment: Mapping[str, str]) -> bool:
    """Whether a provider's model can search the web, and the settings allow it. Raises `ConfigError` for a malformed
    URL."""
    pattern = WEB_SEARCH_MODELS.get(name)
    if pattern is None or not re.match(pattern, model) or config.web_search not in ("auto", "provider"):
        return False
    address = find_base_url(name, config.provider_config(name), environment).rstrip("/")
    return config.web_search == "provider" or address == _BASE_URLS[name][1]


def key_variable(name: str, provider_config: ProviderConfig) -> str | None:
    """Return the environment variable for a provider's key; None if it needs none."""
    return provider_config.api_key_env or _KEY_VARIABLES.get(name)


def _validate_url(url: str, source: str) -> None:
    try:
        split_url = urlsplit(url)
        host, _ = split_url.hostname, split_url.port
    except ValueError as error:
        raise ConfigError(f"{source}: `{redact_url(url)}` is not a URL: {error}") from error
    if split_url.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{source}: `{redact_url(url)}` is not a URL; write it as `https://host/path`")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    import ipaddress  # noqa: PLC0415  # deferred: only needed without a key

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
