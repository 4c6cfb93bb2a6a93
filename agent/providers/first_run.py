"""Support for the first run: detects API keys in the environment and model servers on this machine, and tests keys.
Changes nothing."""

import asyncio
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ebbtide.agent import providers
from ebbtide.agent.config.values import Config, ProviderConfig
from ebbtide.agent.errors import ConfigError, TimedOut
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Reply, Request
from ebbtide.agent.providers.setup import (
    LOCAL_CHAT_SERVERS,
    find_endpoint,
    is_loopback,
    key_variable,
)

OLLAMA_URL = "http://127.0.0.1:11434"
PROBE_TIMEOUT_S = 0.5
"""Timeout of a probe, in seconds. Servers on this machine answer much faster."""
KEY_TRIAL_TIMEOUT_S = 60.0
_MAX_LISTED_MODELS = 200

_KEY_NAME_PATTERNS = (("anthropic", r"ANTHROPIC|CLAUDE"), ("openai", r"OPENAI|GPT"))


@dataclass(frozen=True, slots=True)
class DetectedKey:
    """An environment variable whose name suggests an API key."""

    variable: str
    provider: str


@dataclass(frozen=True, slots=True)
class LocalModelServer:
    """A model server that responds on this machine."""

    name: str
    url: str
    models: tuple[str, ...]


def detect_keys(environment: Mapping[str, str]) -> tuple[DetectedKey, ...]:
    """Return the environment variables whose names suggest an API key. Their values are not checked."""
    return tuple(
        DetectedKey(variable, provider)
        for variable in sorted(environment)
        for provider, name_pattern in _KEY_NAME_PATTERNS
        if environment[variable] and re.fullmatch(rf"\w*({name_pattern})\w*(KEY|TOKEN)\w*", variable)
    )


def find_ollama_url(environment: Mapping[str, str]) -> str:
    """Return the configured address of Ollama if it is on this machine, otherwise its default address."""
    try:
        url = find_endpoint("ollama", ProviderConfig(), environment).base_url
    except ConfigError:
        return OLLAMA_URL
    return url if is_loopback(urlsplit(url).hostname or "") else OLLAMA_URL


def detect_local_servers(url: str = OLLAMA_URL) -> tuple[LocalModelServer, ...]:
    """Find the model servers that respond on this machine, with their models. Ollama comes first. `url`: Ollama's
    address. Each probe times out after `PROBE_TIMEOUT_S`."""
    probes = [("Ollama", url, f"{url}/api/tags", "models", "name")]
    probes += [(name, base_url, f"{base_url}/models", "data", "id") for name, base_url, _ in LOCAL_CHAT_SERVERS]
    with ThreadPoolExecutor(len(probes)) as pool:
        model_lists = list(pool.map(lambda probe: _fetch_model_names(*probe[2:]), probes))
    return tuple(
        LocalModelServer(name, base_url, names)
        for (name, base_url, *_), names in zip(probes, model_lists, strict=True)
        if names is not None
    )


def _fetch_model_names(url: str, list_key: str, name_key: str) -> tuple[str, ...] | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never use a proxy
    try:
        with opener.open(url, timeout=PROBE_TIMEOUT_S) as response:
            content = json.loads(response.read(1_000_000))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    models: Any = content.get(list_key) if isinstance(content, dict) else None
    if not isinstance(models, list):  # probably another program; but Ollama sends null if it has no models
        return () if isinstance(content, dict) and list_key in content else None
    names = (model.get(name_key) for model in models[:_MAX_LISTED_MODELS] if isinstance(model, dict))
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and name)


async def check_key(config: Config, environment: Mapping[str, str], model: str, key: str) -> None:
    """Test a key with a short question to a model. Raises `AgentError` if there is no answer."""
    provider_name = model.partition("/")[0]
    variable = key_variable(provider_name, config.provider_config(provider_name))
    key_environment = {**environment, variable: key} if variable else environment
    provider = await providers.factory.build_provider(config, model, key_environment)
    request = Request("Answer with one word.", (User((Text("Say: ready"),)),), (), 64, "first-run")
    try:
        async with asyncio.timeout(KEY_TRIAL_TIMEOUT_S):
            async for chunk in provider.stream(request):
                if isinstance(chunk, Reply):
                    return
    except TimeoutError:
        raise TimedOut(f"`{model}` did not answer within {KEY_TRIAL_TIMEOUT_S:.0f} s") from None
    finally:
        await provider.close()
