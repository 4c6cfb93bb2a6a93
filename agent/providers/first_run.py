"""What somebody has who starts for the first time: keys in the environment, models here. It changes nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.config.values import Config
from agent.providers.setup import FIRST_CHOICE

_KEYS = (("anthropic", r"ANTHROPIC|CLAUDE"), ("openai", r"OPENAI|GPT"))


@dataclass(frozen=True, slots=True)
class KeyFound:
    """A variable that looks as if it held a key."""

    variable: str
    provider: str


def is_first(config: Config, environment: Mapping[str, str]) -> bool:
    """Nobody has said which model is meant, in any way."""
    usual = any(environment.get(key) for key, _ in FIRST_CHOICE)
    return config.model is None and not usual and not (config.folders.config / "config.toml").exists()


def keys_found(environment: Mapping[str, str]) -> tuple[KeyFound, ...]:
    """Variables with a name of their own that could hold a provider's key. Nothing is said of what they hold."""
    return tuple(
        KeyFound(variable, provider)
        for variable in sorted(environment)
        for provider, names in _KEYS
        if environment[variable] and re.fullmatch(rf"\w*({names})\w*(KEY|TOKEN)\w*", variable)
    )
