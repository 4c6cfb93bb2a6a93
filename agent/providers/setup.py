"""What a provider needs to be built, from the configuration: its address, its key, the window to work in. It knows no
adapter and makes no connection."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from agent.config import Config, ProviderConfig
from agent.context.budget import Window
from agent.errors import AuthFailed, ConfigError, UsageError
from agent.providers.base import Endpoint, ModelFacts

OUTPUT_TOKENS = 16_384
"""Reserved for a reply, when the model can write as much."""

_BASE_URLS = {
    "anthropic": ("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "openai-chat": ("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "ollama": ("OLLAMA_HOST", "http://127.0.0.1:11434"),
}
_KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "openai-chat": "OPENAI_API_KEY"}
FIRST_CHOICE = (("ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"), ("OPENAI_API_KEY", "openai/gpt-6-sol"))
"""The model of somebody who has named none, by the key that they have."""


def first_choice(environment: Mapping[str, str]) -> str:
    """The model of somebody who has named none. Raises `UsageError` when no key says which it could be."""
    for key, model in FIRST_CHOICE:
        if environment.get(key):
            return model
    raise UsageError(
        "no model is set; name one with `-m PROVIDER/NAME` (such as `-m ollama/qwen3`), set `agent.model` in the "
        "configuration, or set ANTHROPIC_API_KEY or OPENAI_API_KEY. `ebb demo` needs none of them"
    )


def overrides(config: Config, settings: ProviderConfig, model: str) -> dict[str, object]:
    """What the configuration knows better than the registry: flag first, then the model, the provider, `[agent]`."""
    chosen = dict(settings.models.get(model, {}))
    for window in (settings.context_window, config.context_window):
        if window is not None:
            chosen.setdefault("context_window", window)
    if config.sources["agent.context_window"] == "command line":
        chosen["context_window"] = config.context_window
    return chosen


def find_window(facts: ModelFacts, config: Config) -> Window:
    """The window that a session works in, with its reserves. In a small window the reserves shrink with it."""
    size = facts.context_window
    output = config.max_output_tokens or min(facts.max_output_tokens, OUTPUT_TOKENS, size // 4)
    output = min(output, facts.max_output_tokens)
    if facts.max_input_tokens is not None:
        # Some windows are larger than what a request may put into them.
        size = min(size, facts.max_input_tokens + output)
    buffer = min(config.context_window_buffer_tokens, size // 8)
    return Window(size, output, buffer, config.compact_trigger, config.hard_block)


def find_endpoint(name: str, settings: ProviderConfig, environment: Mapping[str, str]) -> Endpoint:
    """Where a provider is reached, and the key for it. Raises `ConfigError` for a malformed URL, and `AuthFailed` when
    there is no key and one is needed: for any server but ollama and those on this machine."""
    variable, usual = _BASE_URLS[name]
    url, source = usual, "the default"
    if environment.get(variable):
        url, source = environment[variable], f"environment {variable}"
    if settings.base_url:
        url, source = settings.base_url, f"`providers.{name}.base_url`"
    if name == "ollama" and "://" not in url:
        # As Ollama's own programs read OLLAMA_HOST: a bare host means its usual port, not that of HTTP.
        url = f"http://{url}" if re.search(r":\d+$", url) else f"http://{url}:11434"
    host = _host(url, source)
    key_name = settings.api_key_env or _KEYS.get(name)
    key = environment.get(key_name) if key_name else None
    if not key and name != "ollama" and not _is_loopback(host):
        raise AuthFailed(f"there is no key for {name}: set the environment variable {key_name}, then start again")
    return Endpoint(url.rstrip("/"), key or None, settings.timeout)


def _host(url: str, source: str) -> str:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{source}: `{url}` is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{source}: `{url}` is not a URL; write it as `https://host/path`")
    return host


def _is_loopback(host: str) -> bool:
    import ipaddress  # noqa: PLC0415  # deferred: only a run without a key asks

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
