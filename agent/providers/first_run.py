"""What somebody has who starts for the first time: keys in the environment, models of servers on this machine, and
whether a key works. It changes nothing."""

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
"""Seconds for an answer: a server on this machine needs much less."""
TRIAL_SECONDS = 60.0
_MOST_MODELS = 200

_KEYS = (("anthropic", r"ANTHROPIC|CLAUDE"), ("openai", r"OPENAI|GPT"))


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A variable that looks as if it held a key."""

    variable: str
    provider: str


@dataclass(frozen=True, slots=True)
class LocalModelServer:
    """A server on this machine that answers."""

    name: str
    url: str
    models: tuple[str, ...]


def is_first(config: Config, environment: Mapping[str, str]) -> bool:
    """Nobody has said which model is meant, in any way."""
    usual = any(has_key(environment, key, model) for key, model in FIRST_CHOICE)
    return config.model is None and not usual and not (config.folders.config / "config.toml").exists()


def keys_found(environment: Mapping[str, str]) -> tuple[KeyFound, ...]:
    """Variables with a name of their own that could hold a provider's key. Nothing is said of what they hold."""
    return tuple(
        KeyFound(variable, provider)
        for variable in sorted(environment)
        for provider, names in _KEYS
        if environment[variable] and re.fullmatch(rf"\w*({names})\w*(KEY|TOKEN)\w*", variable)
    )


def address(environment: Mapping[str, str]) -> str:
    """Where it is said to be, as far as that is on this machine; where it usually is otherwise."""
    try:
        url = find_endpoint("ollama", ProviderConfig(), environment).base_url
    except ConfigError:
        return OLLAMA_URL
    return url if is_loopback(urlsplit(url).hostname or "") else OLLAMA_URL


def local_servers(url: str = OLLAMA_URL) -> tuple[LocalModelServer, ...]:
    """The servers on this machine that answer, with their models, Ollama's first. `url`: Ollama's. Waits for a moment
    at most."""
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
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of somebody else
    try:
        with opener.open(url, timeout=PROBE_TIMEOUT_S) as answer:
            content = json.loads(answer.read(1_000_000))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        return None
    models: Any = content.get(listed) if isinstance(content, dict) else None
    if not isinstance(models, list):  # another program that answers there; Ollama says null where it has none
        return () if isinstance(content, dict) and listed in content else None
    names = (model.get(named) for model in models[:_MOST_MODELS] if isinstance(model, dict))
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and name)


async def try_key(config: Config, environment: Mapping[str, str], model: str, key: str) -> None:
    """Asks a model for one word with a key. Raises `AgentError` where no answer comes."""
    from ebbtide.agent.providers.factory import build_provider  # noqa: PLC0415  # deferred: few runs try a key

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
        raise TimedOut(f"`{model}` gave no answer for {TRIAL_SECONDS:.0f} s") from None
    finally:
        await provider.close()
