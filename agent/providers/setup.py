"""A provider's settings from the configuration: its address, key and window."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from ebbtide.agent.config.values import Config, ProviderConfig
from ebbtide.agent.context.budget import BUFFER, SMALL_BUFFER, Window, fitting_reserves, usual_output
from ebbtide.agent.errors import AuthFailed, ConfigError, UsageError
from ebbtide.agent.providers.base import Endpoint, ModelFacts
from ebbtide.agent.providers.keys import stored_key
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.secrets.redaction import without_password

OUTPUT_TOKENS = 16_384
"""Tokens reserved for a reply, if the model can write as many."""

TIMEOUT = 120.0
"""Seconds of silence before a request fails."""
LOCAL_TIMEOUT = 600.0
"""The same for a server on this machine, which may take minutes to read a long request before it responds."""

_COMMAND_LINE = ("command line", "--config")

_BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openai-chat": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "ollama": ("OLLAMA_HOST", "http://127.0.0.1:11434"),
}
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "openai-chat": "OPENAI_API_KEY"}
CHAT_SERVERS = (
    ("LM Studio", "http://127.0.0.1:1234/v1", "lms server start"),
    ("llama.cpp", "http://127.0.0.1:8080/v1", "llama-server -m MODEL.gguf"),
    ("vLLM", "http://127.0.0.1:8000/v1", "vllm serve MODEL"),
)
"""Servers with OpenAI's chat API: name, default address, start command."""
FIRST_CHOICE = (("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"), ("OPENAI_API_KEY", "openai/gpt-6-sol"))
"""Default model by the key that is set."""


def first_choice(environment: Mapping[str, str]) -> str:
    """The default model for the keys that are set. Raises `UsageError` if there are none."""
    for key, model in FIRST_CHOICE:
        if has_key(environment, key, model):
            return model
    raise UsageError(
        "no model is set; name one with `-m PROVIDER/NAME` (such as `-m ollama/qwen3`), set `agent.model` in the "
        "configuration, store a key with `ebb key set anthropic` (or openai), or set ANTHROPIC_API_KEY or "
        "OPENAI_API_KEY. `ebb demo` works without a model"
    )


def has_key(environment: Mapping[str, str], variable: str, model: str) -> bool:
    """Whether there is a key for a model, in its variable or stored."""
    return bool(_value(environment, variable) or stored_key(environment, model.partition("/")[0]))


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """A configured value for a model, and where it was set."""

    value: Any
    source: str


def find_setting(config: Config, provider: str, model: str, key: str) -> ModelSetting | None:
    """The value set for a model: on the command line, for the model, for its provider or in `[agent]`; None if it is
    not set. The command line overrides all files."""
    settings, name = config.provider(provider), f"agent.{key}"
    places = [
        (settings.models.get(model, {}).get(key), f"providers.{provider}.models.{model}.{key}"),
        (getattr(settings, key, None), f"providers.{provider}.{key}"),
        (getattr(config, key, None), name),
    ]
    if config.sources.get(name) == "command line":
        places.reverse()
    found = [
        ModelSetting(value, config.sources[place] if place == name else f"{place} in {config.sources[place]}")
        for value, place in places
        if value is not None
    ]
    said = [setting for setting in found if any(word in setting.source for word in _COMMAND_LINE)]
    return next(iter([*said, *found]), None)


def overrides(config: Config, settings: ProviderConfig, provider: str, model: str) -> dict[str, object]:
    """The settings that override the registry."""
    chosen = dict(settings.models.get(model, {}))
    window = find_setting(config, provider, model, "context_window")
    if window is not None:
        chosen["context_window"] = window.value
    return chosen


def find_window(facts: ModelFacts, config: Config, *, is_precise: bool = False) -> Window:
    """The window for a session, with its reserves and the source of each number. `is_precise`: estimates for this
    model have been good, so a smaller safety margin is enough."""
    known = dict(facts.sources)
    size = _window_size(facts, config)
    longest = find_setting(config, facts.provider, facts.name, "max_output_tokens")
    output = (
        ModelSetting(
            min(facts.max_output_tokens, OUTPUT_TOKENS, usual_output(size.value)),
            known.get("max_output_tokens", "default"),
        )
        if longest is None
        else ModelSetting(min(longest.value, facts.max_output_tokens), longest.source)
        if known.get("max_output_tokens") in ("registry", "live")
        else longest
    )
    buffer = find_setting(config, facts.provider, facts.name, "context_window_buffer_tokens") or ModelSetting(
        min(SMALL_BUFFER if is_precise else BUFFER, size.value // 8), "learned" if is_precise else "default"
    )
    # A window set by the user may cost more; the default one stays within the regular price tier.
    tier = facts.prices.long_above if facts.prices and size.source in ("registry", "live", "default") else None
    window = Window(
        size.value, output.value, buffer.value, max_input=facts.max_input_tokens, price_tier=tier,
        sources=(("context_window", size.source),),
    )  # fmt: skip
    limit = min(n for n in (window.size, window.max_input, window.price_tier) if n is not None)
    reserves = fitting_reserves(limit, output.value, buffer.value)
    shrunk = "" if reserves == (output.value, buffer.value) else ", less in a small window"
    sources = (
        ("context_window", size.source),
        ("max_output_tokens", output.source + shrunk),
        ("context_window_buffer_tokens", buffer.source + shrunk),
        *((("max_input_tokens", known.get("max_input_tokens", "registry")),) if facts.max_input_tokens else ()),
        *((("price_tier", known.get("prices", "registry")),) if tier else ()),
    )
    window = replace(window, output=reserves[0], buffer=reserves[1], sources=sources)
    notices = tuple(_notices(facts, size, (longest,), bool(shrunk)))
    return replace(window, **_triggers(window, config), notices=notices)


def _window_size(facts: ModelFacts, config: Config) -> ModelSetting:
    """The window size. A user's setting is never raised by the server's value, but may be lowered."""
    source = dict(facts.sources).get("context_window", "default")
    chosen = find_setting(config, facts.provider, facts.name, "context_window")
    if chosen is None:
        return ModelSetting(facts.context_window, source)
    if source == "live" and facts.context_window < chosen.value:
        return ModelSetting(facts.context_window, "live")
    return chosen


def _triggers(window: Window, config: Config) -> dict[str, Any]:
    """The two triggers, as shares of the usable window. A ratio of the whole window is converted, and capped at the
    block."""
    if config.threshold_ratio is None:
        return {"compact_trigger": config.compact_trigger, "hard_block": config.hard_block}
    share = config.threshold_ratio * window.size / max(window.effective, 1)
    return {"compact_trigger": min(share, config.hard_block), "hard_block": config.hard_block}


def _notices(
    facts: ModelFacts, size: ModelSetting, outputs: tuple[ModelSetting | None, ...], shrunk: bool
) -> Iterator[str]:
    if size.source == "default" and facts.provider != "ollama":
        yield (
            f"nothing is known about `{facts.id}`: its window is assumed to be {size.value:,} tokens, its replies to "
            f"be at most {facts.max_output_tokens:,}, and its price is unknown; set `context_window`, "
            f'`max_output_tokens` and `prices` in `[providers.{facts.provider}.models."{facts.name}"]`'
        )
    if shrunk and any(outputs):
        yield f"the window of `{facts.id}` is too small for the configured reserves: they were reduced to fit"


def find_endpoint(name: str, settings: ProviderConfig, environment: Mapping[str, str]) -> Endpoint:
    """A provider's address and key. Raises `ConfigError` for a malformed URL, and `AuthFailed` if a required key is
    missing; Ollama and servers on this machine need none."""
    url = address_of(name, settings, environment)
    host = urlsplit(url).hostname or ""
    key_name = key_variable(name, settings)
    key = _value(environment, key_name or "") or stored_key(environment, name, url)
    if not key and name != "ollama" and not is_loopback(host):
        told = f"there is no key for {name}: type `/key {name}` in a session, run `ebb key set {name}`, "
        told += f"or set the environment variable {key_name}"
        others = [(key, model) for key, model in FIRST_CHOICE if _value(environment, key)]
        raise AuthFailed(told + "".join(f"; {key} is set: `-m {model}` takes it" for key, model in others[:1]))
    usual = LOCAL_TIMEOUT if is_loopback(host) else TIMEOUT
    return Endpoint(url.rstrip("/"), key or None, settings.timeout or usual)


def _value(environment: Mapping[str, str], variable: str) -> str:
    """The value of a variable, stripped: lines from a Windows file leave a carriage return, and pasted text a
    newline."""
    return environment.get(variable, "").strip()


def address_of(name: str, settings: ProviderConfig, environment: Mapping[str, str]) -> str:
    """A provider's address. Raises `ConfigError` for a malformed URL."""
    variable, usual_url = _BASE_URLS[name]
    url, source = usual_url, "the default"
    if told := _value(environment, variable):
        url, source = told, f"environment {variable}"
    if settings.base_url:
        url, source = settings.base_url, f"`providers.{name}.base_url`"
    if name == "ollama" and "://" not in url:
        # As Ollama's own programs do: a bare host means Ollama's port, not port 80.
        url = f"http://{url}" if re.search(r":\d+$", url) else f"http://{url}:11434"
    _check(url, source)
    return url


def is_own_server(name: str, endpoint: Endpoint) -> bool:
    """Whether a provider is reached at its official address."""
    return endpoint.base_url == _BASE_URLS[name][1]


def key_variable(name: str, settings: ProviderConfig) -> str | None:
    """The environment variable for a provider's key; None if it needs none."""
    return settings.api_key_env or _KEYS.get(name)


def _check(url: str, source: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{source}: `{without_password(url)}` is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{source}: `{without_password(url)}` is not a URL; write it as `https://host/path`")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    import ipaddress  # noqa: PLC0415  # deferred: only needed without a key

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
