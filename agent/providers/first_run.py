"""Detects keys in the environment and local model servers on the first run, and tests keys. Changes nothing."""

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

from ebbtide.agent.config.values import Config, ProviderConfig
from ebbtide.agent.errors import ConfigError, TimedOut
from ebbtide.agent.messages import Text, User
from ebbtide.agent.providers.base import Reply, Request
from ebbtide.agent.providers.setup import CHAT_SERVERS, FIRST_CHOICE, find_endpoint, has_key, is_loopback, key_variable

OLLAMA_URL = "http://127.0.0.1:11434"
PROBE_TIMEOUT_S = 0.5
"""Timeout of a probe, in seconds. A server on this machine needs much less."""
TRIAL_SECONDS = 60.0
_MOST_MODELS = 200

_KEYS = (("anthropic", r"ANTHROPIC|CLAUDE"), ("openai", r"OPENAI|GPT"))


@dataclass(frozen=True, slots=True)
class KeyFound:
    """An environment variable that looks as if it contains a key."""

    variable: str
    provider: str


@dataclass(frozen=True, slots=True)
class LocalModelServer:
    """A model server that responds on this machine."""

    name: str
    url: str
    models: tuple[str, ...]


def is_first(config: Config, environment: Mapping[str, str]) -> bool:
    """Whether no model has been chosen: none is configured, no key is set and there is no config file."""
    usual = any(has_key(environment, key, model) for key, model in FIRST_CHOICE)
    return config.model is None and not usual and not (config.folders.config / "config.toml").exists()


def keys_found(environment: Mapping[str, str]) -> tuple[KeyFound, ...]:
    """Environment variables whose names suggest a provider's key. Their values are not examined."""
    return tuple(
        KeyFound(variable, provider)
        for variable in sorted(environment)
        for provider, names in _KEYS
        if environment[variable] and re.fullmatch(rf"\w*({names})\w*(KEY|TOKEN)\w*", variable)
    )


def address(environment: Mapping[str, str]) -> str:
    """The configured address of Ollama if it is on this machine, else its default address."""
    try:
        url = find_endpoint("ollama", ProviderConfig(), environment).base_url
    except ConfigError:
        return OLLAMA_URL
    return url if is_loopback(urlsplit(url).hostname or "") else OLLAMA_URL


def local_servers(url: str = OLLAMA_URL) -> tuple[LocalModelServer, ...]:
    """The model servers that respond on this machine, with their models, Ollama first. `url`: Ollama's address.
    Probes time out after `PROBE_TIMEOUT_S`."""
    asked = [("Ollama", url, f"{url}/api/tags", "models", "name")]
    asked += [(name, base, f"{base}/models", "data", "id") for name, base, _ in CHAT_SERVERS]
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda one: _names(*one[2:]), asked))
    return tuple(
        LocalModelServer(name, base, names)
        for (name, base, *_), names in zip(asked, found, strict=True)
        if names is not None
    )


def _names(url: str, listed: str, named: str) -> tuple[str, ...] | None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through a proxy
    try:
        with opener.open(url, timeout=PROBE_TIMEOUT_S) as answer:
            content = json.loads(answer.read(1_000_000))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    models: Any = content.get(listed) if isinstance(content, dict) else None
    if not isinstance(models, list):  # another program responds there; Ollama sends null if it has no models
        return () if isinstance(content, dict) and listed in content else None
    names = (model.get(named) for model in models[:_MOST_MODELS] if isinstance(model, dict))
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and name)


async def try_key(config: Config, environment: Mapping[str, str], model: str, key: str) -> None:
    """Ask a model for one word, using this key. Raises `AgentError` if there is no answer."""
    from ebbtide.agent.providers.factory import build_provider  # noqa: PLC0415  # deferred: few runs test a key

    name = model.partition("/")[0]
    variable = key_variable(name, config.provider(name))
    with_key = {**environment, variable: key} if variable else environment
    provider = await build_provider(config, model, with_key)
    request = Request("Answer with one word.", (User((Text("Say: ready"),)),), (), 64, "first-run")
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            async for chunk in provider.stream(request):
                if isinstance(chunk, Reply):
                    return
    except TimeoutError:
        raise TimedOut(f"`{model}` did not answer within {TRIAL_SECONDS:.0f} s") from None
    finally:
        await provider.close()
