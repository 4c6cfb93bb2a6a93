"""What somebody has who starts for the first time: keys in the environment, models of a server on this machine. It
changes nothing, and asks nobody else."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from agent.config.values import Config, ProviderConfig
from agent.errors import ConfigError
from agent.providers.setup import FIRST_CHOICE, find_endpoint, has_key, is_loopback

USUAL = "http://127.0.0.1:11434"
PATIENCE = 0.5
"""Seconds for an answer: a server on this machine needs much less."""

_KEYS = (("anthropic", r"ANTHROPIC|CLAUDE"), ("openai", r"OPENAI|GPT"))


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A variable that looks as if it held a key."""

    variable: str
    provider: str


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
        return USUAL
    return url if is_loopback(urlsplit(url).hostname or "") else USUAL


def installed(url: str = USUAL) -> tuple[str, ...] | None:
    """The names of the models that an Ollama server has; None where none answers. Waits for a moment at most."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of somebody else
    try:
        with opener.open(f"{url}/api/tags", timeout=PATIENCE) as answer:
            listed = json.loads(answer.read(1_000_000)).get("models")
    except (OSError, ValueError, AttributeError):
        return None
    models = listed if isinstance(listed, list) else []
    names = (model.get("name") for model in models if isinstance(model, dict))
    return tuple(name for name in names if isinstance(name, str) and name.isprintable() and name)
