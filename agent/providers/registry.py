"""Facts about models: windows, limits, prices, capabilities.

A fact comes from the first of these sources that has it: user settings, the server, the table, a default."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from ebbtide.agent.errors import ConfigError
from ebbtide.agent.providers.base import ModelFacts, Prices
from ebbtide.tools.lazy import regex

UNKNOWN_WINDOW = 131_072
UNKNOWN_OUTPUT = 8_192
OLLAMA_WINDOW = 32_768
"""Default window of a local model: a larger one needs memory that the machine may not have."""
FREE = Prices(input=0, output=0, cache_read=0, cache_write=0)

TABLES = {"anthropic": "anthropic", "openai": "openai", "openai-chat": "openai"}
"""The registry table with a provider's models."""

CACHE_TTL = {"anthropic": 300.0, "openai": 300.0, "openai-chat": 300.0, "ollama": 1800.0}
"""Minimum lifetime of a provider's cache, in seconds; a local server keeps the model for as long as requests ask."""
LATER_OPENAI_TTL = 1800.0
CACHE_MINIMUM = (("haiku", 4096), ("opus", 4096), ("sonnet", 2048))
"""The shortest prefix that is cached, by family, for its newest models; the usual minimum is 1,024."""

KINDS: dict[str, type] = {
    "context_window": int,
    "max_output_tokens": int,
    "max_input_tokens": int,
    "cache_min_tokens": int,
    "images": bool,
    "thinking": str,
    "tool_search": str,
    "prices": dict,
}
"""The facts that a user may set, with their types."""
THINKING = ("none", "adaptive", "budget", "effort")
TOOL_SEARCH = {"anthropic": ("none", "plain"), "openai": ("none", "grouped")}
"""How providers search for deferred tools, if they do."""

MOST_TOOLS = {"openai": 128, "openai-chat": 128}
"""The most tool definitions that a provider accepts in one request; it rejects a request with more."""

STEADY = 0.2
"""The default temperature of a small model: at the 0.8 that servers use otherwise, it makes mistakes in the
arguments of its calls."""

_SIZE = regex(r"(?<![\w.])(?:(\d+)x)?(\d{1,4}(?:\.\d+)?)b(?![a-z\d])", re.IGNORECASE)
_DATE = regex(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")


def facts_for(provider: str, name: str, overrides: Mapping[str, object] = {}) -> ModelFacts:
    """What is known of a model. Raises `ConfigError` for an invalid override."""
    row = _row(provider, name)
    known: dict[str, Any] = dict(row or {})
    if "prices" in known:
        known["prices"] = Prices(**known["prices"])
    if provider not in TOOL_SEARCH:
        known.pop("tool_search", None)  # one API of a provider supports it, the other does not
    settings: dict[str, Any] = {
        key: _validate_override(provider, name, key, value) for key, value in overrides.items() if key in KINDS
    }
    if "prices" in settings:
        settings["prices"] = _prices(settings["prices"], known.get("prices"), f"{provider}/{name}")
    defaults = _defaults(provider, name)
    sources = {
        key: "config" if key in settings else "registry" if key in known else "default" for key in (*defaults, "prices")
    }
    return ModelFacts(
        provider=provider,
        name=name,
        known=row is not None or bool(settings),
        parameters=parameters_in(name) if row is None else None,
        sources=tuple(sources.items()),
        most_tools=MOST_TOOLS.get(provider),
        renews_cache=provider == "anthropic" or (provider == "openai" and has_breakpoints(name)),
        **{**defaults, **known, **settings},
    )


def with_live(
    facts: ModelFacts,
    longest: int | None,
    capabilities: tuple[str, ...] | None,
    set_window: int | None = None,
) -> ModelFacts:
    """The facts updated with what a running server reports: the model's longest window and its capabilities.

    The window is the user's setting or the default for local models, but never more than the model's longest."""
    sources = dict(facts.sources)
    if set_window is None and sources.get("context_window") == "config":
        set_window = facts.context_window
    if longest is not None and longest > 0:
        facts = replace(facts, context_window=min(longest, set_window or OLLAMA_WINDOW), known=True)
        sources["context_window"] = "live" if set_window is None or longest < set_window else "config"
    if capabilities is not None and sources.get("images") != "config":
        facts = replace(facts, images="vision" in capabilities, known=True)
        sources["images"] = "live"
    if capabilities is not None and sources.get("thinking") != "config":
        facts = replace(facts, thinking="adaptive" if "thinking" in capabilities else "none")
        sources["thinking"] = "live"
    return replace(facts, sources=tuple(sources.items()))


def parameters_in(name: str) -> float | None:
    """The number of parameters in a model's name, such as `qwen2.5-coder:1.5b`. Of several numbers the largest
    counts, since it is the total rather than the active parameters. None if the name has none."""
    found = [int(times or 1) * float(number) * 1e9 for times, number in _SIZE.findall(name)]
    return max(found, default=None)


def with_parameters(facts: ModelFacts, parameters: object, *, has_usual_sampling: bool) -> ModelFacts:
    """The facts with the number of parameters reported by the server. `has_usual_sampling`: the temperature is the
    server's default, so a small model without thinking gets a lower one."""
    if isinstance(parameters, int | float) and not isinstance(parameters, bool) and parameters > 0:
        facts = replace(facts, parameters=float(parameters))
    if facts.is_small and has_usual_sampling and facts.temperature is None and facts.thinking == "none":
        return replace(facts, temperature=STEADY)
    return facts


def at_other_server(facts: ModelFacts) -> ModelFacts:
    """The facts of a model reached through a third-party server: only what every such server supports, unless the
    user's settings say more."""
    if dict(facts.sources).get("tool_search") == "config":
        return facts
    kept = tuple(pair for pair in facts.sources if pair[0] != "tool_search")
    return replace(facts, tool_search="none", sources=(*kept, ("tool_search", "default")))


def known_models(provider: str) -> tuple[str, ...]:
    """The registry's model names for a provider."""
    return tuple(_table().get(TABLES.get(provider, ""), {}))


def _row(provider: str, name: str) -> Mapping[str, Any] | None:
    """The registry row for a model, or for the model that a dated name is a version of."""
    models = _table().get(TABLES.get(provider, ""), {})
    return models.get(name) or models.get(_DATE.sub("", name))


@cache
def _table() -> dict[str, dict[str, dict[str, Any]]]:
    text = Path(__file__).with_name("models.json").read_text(encoding="utf-8")
    return cast(dict[str, dict[str, dict[str, Any]]], json.loads(text)["models"])


def has_breakpoints(name: str) -> bool:
    """Whether an OpenAI model accepts cache breakpoints in its input: since GPT-5.6."""
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?(?!\d|o)", name)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)


def _defaults(provider: str, name: str) -> dict[str, Any]:
    local = provider == "ollama"
    return {
        "context_window": OLLAMA_WINDOW if local else UNKNOWN_WINDOW,
        "max_output_tokens": UNKNOWN_OUTPUT,
        "max_input_tokens": None,
        "images": False,
        "thinking": "none",
        "tool_search": "none",
        "prices": FREE if local else None,
        "cache_min_tokens": next((least for family, least in CACHE_MINIMUM if family in name), 1024),
        "cache_ttl": LATER_OPENAI_TTL
        if provider == "openai" and has_breakpoints(name)
        else CACHE_TTL.get(provider, 300.0),
    }


def _validate_override(provider: str, name: str, key: str, value: object) -> object:
    kind = KINDS[key]
    words = TOOL_SEARCH.get(provider, ("none",)) if key == "tool_search" else THINKING
    is_number = kind is int and isinstance(value, int) and not isinstance(value, bool) and value > 0
    if is_number or (kind is not int and isinstance(value, kind) and (kind is not str or value in words)):
        return value
    wanted = {int: "a whole number above 0", bool: "true or false", str: f"one of {', '.join(words)}"}
    raise ConfigError(
        f'`providers.{provider}.models."{name}".{key}` is {value!r}: it must be {wanted.get(kind, "a table")}.'
    )


def _prices(set_by_user: Mapping[str, object], known: Prices | None, model: str) -> Prices:
    """The user's prices over the known ones. Prices of long requests apply only to the price list they came with."""
    allowed = {field.name for field in fields(Prices)}
    numbers = {
        key: float(value)
        for key, value in set_by_user.items()
        if key in allowed and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    }
    if len(numbers) != len(set_by_user):
        raise ConfigError(
            f"the prices of {model} must be numbers: US dollars per million tokens, by {sorted(allowed)}."
        )
    if "long_above" in numbers:
        numbers["long_above"] = int(numbers["long_above"])
    if known is not None and not {"input", "output"} <= numbers.keys():
        return replace(known, **cast(dict[str, Any], numbers))
    if not {"input", "output"} <= numbers.keys():
        raise ConfigError(f"the prices of {model} must have `input` and `output`.")
    usual = {"cache_read": numbers["input"], "cache_write": numbers["input"]}
    return Prices(**cast(dict[str, Any], {**usual, **numbers}))
