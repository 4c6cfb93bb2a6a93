"""A server of models on this machine: whether it answers, and what it has. It asks nobody else."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlsplit

from agent.config.values import ProviderConfig
from agent.errors import ConfigError
from agent.providers.setup import find_endpoint, is_loopback

USUAL = "http://127.0.0.1:11434"
PATIENCE = 0.5
"""Seconds for an answer: a server on this machine needs much less."""


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
