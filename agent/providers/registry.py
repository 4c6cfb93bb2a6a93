"""Facts about models: windows, limits, prices, capabilities.

A fact is taken from the first of these sources that has it: user settings, the server, the registry, a default.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

from ebbtide.agent.budget.cache_lifetime import DEFAULT_LIFETIME, CacheLifetime
from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.errors import ConfigError
from ebbtide.agent.providers.base import ModelFacts
from ebbtide.tools.lazy import regex

DEFAULT_WINDOW_TOKENS = 131_072
DEFAULT_OUTPUT_TOKENS = 8_192
OLLAMA_WINDOW_TOKENS = 32_768
"""Default window of a local model, in tokens. A larger one needs memory that the machine may not have."""
FREE_PRICES = Prices(input=0, output=0, cache_read=0, cache_write=0)

PROVIDER_TABLES = {
    "azure": ("azure", "openai"),
    "bedrock": ("bedrock", "anthropic"),
    "foundry": ("foundry", "anthropic"),
    "openai-chat": ("openai",),
    "vertex": ("vertex", "anthropic"),
}
"""Registry tables by provider. A provider that is missing here uses only the table named after it."""

CACHE_TTL_SECONDS = {"anthropic": 300.0, "openai": 300.0, "openai-chat": 300.0, "ollama": 1800.0}
"""Minimum lifetime of a provider's cache, in seconds. For Ollama, this is how long requests ask it to keep the model
loaded."""
OPENAI_BREAKPOINT_TTL_SECONDS = 1800.0
CACHE_MIN_TOKENS = (("haiku", 4096), ("opus", 4096), ("sonnet", 2048))
"""Minimum length of a cached prefix, by model family. Models of other families cache 1,024 tokens or more."""

SETTABLE_FACTS: dict[str, type] = {
    "context_window": int,
    "max_output_tokens": int,
    "max_input_tokens": int,
    "cache_min_tokens": int,
    "images": bool,
    "thinking": str,
    "tool_search": str,
    "prices": dict,
}
"""Names and types of the facts that a user may set."""
THINKING_KINDS = ("none", "adaptive", "budget", "effort")
TOOL_SEARCH_KINDS = {"anthropic": ("none", "plain"), "openai": ("none", "grouped")}
"""Kinds of search for deferred tools that each provider supports."""

MAX_TOOLS_PER_REQUEST = {"azure": 128, "chatgpt": 128, "copilot": 128, "openai": 128, "openai-chat": 128}
"""Maximum number of tool definitions in a request, for providers that reject more."""

SMALL_MODEL_TEMPERATURE = 0.2
"""Default temperature of a small model. At 0.8, the default of most servers, small models make mistakes in call
arguments."""

_MODEL_SIZE = regex(r"(?<![\w.])(?:(\d+)x)?(\d{1,4}(?:\.\d+)?)b(?![a-z\d])", re.IGNORECASE)
_DATE = regex(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|latest|default)$")
_BEDROCK_NAME = regex(r"^(?:arn:[^/]*/)?(?:[a-z-]+\.)?anthropic\.(.+?)(?:-v\d+(?::\d+)?)?$")
"""A Bedrock model id, which may include a profile's ARN, a region and a version."""


def find_registry_facts(
    provider: str, name: str, overrides: Mapping[str, object] = {}, updates_folder: Path | None = None
) -> ModelFacts:
    """Return what is known about a model. `updates_folder`: the folder of updated tables. Raises `ConfigError` for an
    invalid override."""
    row = _registry_row(provider, name, updates_folder)
    registry_row: dict[str, Any] = dict(row or {})
    if "prices" in registry_row:
        registry_row["prices"] = Prices(**registry_row["prices"])
    if provider not in TOOL_SEARCH_KINDS:
        registry_row.pop("tool_search", None)  # only one of OpenAI's two APIs supports it
    valid_overrides: dict[str, Any] = {
        key: _validate_override(provider, name, key, value) for key, value in overrides.items() if key in SETTABLE_FACTS
    }
    if "prices" in valid_overrides:
        valid_overrides["prices"] = _merged_prices(
            valid_overrides["prices"], registry_row.get("prices"), f"{provider}/{name}"
        )
    defaults = _default_facts(provider, name)
    sources = {
        key: "config" if key in valid_overrides else "registry" if key in registry_row else "default"
        for key in (*defaults, "prices")
    }
    return ModelFacts(
        provider=provider,
        name=name,
        is_known=row is not None or bool(valid_overrides),
        parameter_count=parameter_count(name) if row is None else None,
        sources=tuple(sources.items()),
        max_tools=MAX_TOOLS_PER_REQUEST.get(provider),
        renews_cache=provider == "anthropic" or (provider == "openai" and has_breakpoints(name)),
        **{**defaults, **registry_row, **valid_overrides},
    )


def with_server_facts(
    facts: ModelFacts,
    max_window: int | None,
    capabilities: tuple[str, ...] | None,
    configured_window: int | None = None,
) -> ModelFacts:
    """Update the facts with what a running server reports: the model's maximum window and its capabilities.

    The window is the user's setting or the default for local models, but never exceeds the model's maximum.
    """
    sources = dict(facts.sources)
    if configured_window is None and sources.get("context_window") == "config":
        configured_window = facts.context_window
    if max_window is not None and max_window > 0:
        facts = replace(facts, context_window=min(max_window, configured_window or OLLAMA_WINDOW_TOKENS), is_known=True)
        sources["context_window"] = "live" if configured_window is None or max_window < configured_window else "config"
    if capabilities is not None and sources.get("images") != "config":
        facts = replace(facts, images="vision" in capabilities, is_known=True)
        sources["images"] = "live"
    if capabilities is not None and sources.get("thinking") != "config":
        facts = replace(facts, thinking="adaptive" if "thinking" in capabilities else "none")
        sources["thinking"] = "live"
    return replace(facts, sources=tuple(sources.items()))


def parameter_count(name: str) -> float | None:
    """Parse the number of parameters in a model's name, such as `qwen2.5-coder:1.5b`. None if the name contains no such
    number. If it contains several, the largest is used, because a smaller one counts only active parameters."""
    counts = [int(expert_count or 1) * float(number) * 1e9 for expert_count, number in _MODEL_SIZE.findall(name)]
    return max(counts, default=None)


def with_parameter_count(facts: ModelFacts, parameters: object, *, has_default_temperature: bool) -> ModelFacts:
    """Add the number of parameters that the server reports. `has_default_temperature`: the temperature is the server's
    default. In that case, a small model without thinking gets a lower one."""
    if isinstance(parameters, int | float) and not isinstance(parameters, bool) and parameters > 0:
        facts = replace(facts, parameter_count=float(parameters))
    if facts.is_small and has_default_temperature and facts.temperature is None and facts.thinking == "none":
        return replace(facts, temperature=SMALL_MODEL_TEMPERATURE)
    return facts


def with_third_party_limits(facts: ModelFacts) -> ModelFacts:
    """Adapt the facts to a third-party server. Only features that all compatible servers support are assumed, unless
    the user's settings add others."""
    if dict(facts.sources).get("tool_search") == "config":
        return facts
    sources = tuple(pair for pair in facts.sources if pair[0] != "tool_search")
    return replace(facts, tool_search="none", sources=(*sources, ("tool_search", "default")))


def with_cache_lifetime(facts: ModelFacts, lifetime: CacheLifetime) -> ModelFacts:
    """Set the cache lifetime, which changes the price of cache writes."""
    prices, factor = facts.prices, lifetime.write_price / DEFAULT_LIFETIME.write_price
    if prices is not None:
        long_price = prices.long_cache_write
        prices = replace(
            prices,
            cache_write=prices.cache_write * factor,
            long_cache_write=None if long_price is None else long_price * factor,
        )
    return replace(facts, cache_ttl=lifetime.seconds, cache_lifetime=lifetime.name, prices=prices)


def registry_models(provider: str, updates_folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of a provider's models in the registry."""
    return tuple(registry_rows(PROVIDER_TABLES.get(provider, (provider,))[0], updates_folder))


def store_served_models(provider: str, rows: Mapping[str, Mapping[str, object]], updates_folder: Path) -> None:
    """Store the list of models that a server reports as the provider's table. Raises `ConfigError`."""
    date = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
    path = updates_folder / f"{provider}.json"
    unfinished = path.with_name(f"{path.name}.new")
    try:
        updates_folder.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps({"date": date, "models": rows}, indent=1), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write `{path}`: {error.strerror or error}") from error


def is_table_updated(provider: str, updates_folder: Path) -> bool:
    """Whether a provider's table comes from an update."""
    table = PROVIDER_TABLES.get(provider, (provider,))[0]
    return _registry_table(table, updates_folder) is not _registry_table(table, None)


def _registry_row(provider: str, model_name: str, updates_folder: Path | None) -> Mapping[str, Any] | None:
    """Find the registry row for a model. A name with a date or a cloud's prefix is also looked up without it."""
    names = [model_name.rpartition("/")[2] if model_name.startswith("arn:") else model_name]
    if (bedrock_match := _BEDROCK_NAME.match(model_name)) is not None:
        names.append(bedrock_match[1])
    names += [_DATE.sub("", name) for name in names]
    tables = [registry_rows(table, updates_folder) for table in PROVIDER_TABLES.get(provider, (provider,))]
    return next((row for table in tables for candidate in names if (row := table.get(candidate)) is not None), None)


def registry_rows(table_name: str, updates_folder: Path | None = None) -> Mapping[str, dict[str, Any]]:
    """Return the registry's rows for the models of one provider, by name; empty if it has none. `updates_folder`: the
    folder of updated tables, which are used if they are newer than those of this release."""
    rows = _registry_table(table_name, updates_folder).get("models", {})
    return cast(Mapping[str, dict[str, Any]], rows)


@cache
def _registry_table(table_name: str, updates_folder: Path | None) -> Mapping[str, object]:
    if updates_folder is None:
        return _read_table(Path(__file__).parent / "models" / f"{table_name}.json")
    released, updated = _registry_table(table_name, None), _read_table(updates_folder / f"{table_name}.json")
    return updated if str(updated.get("date", "")) > str(released.get("date", "")) else released


def _read_table(path: Path) -> Mapping[str, object]:
    """Return a table; empty if there is none or it is damaged."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    is_table = isinstance(table, dict) and isinstance(table.get("models"), dict)
    return table if is_table and all(isinstance(row, dict) for row in table["models"].values()) else {}


def has_breakpoints(name: str) -> bool:
    """Whether an OpenAI model accepts cache breakpoints, as all do since GPT-5.6."""
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?(?!\d|o)", name)
    return version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 6)


def _default_facts(provider: str, name: str) -> dict[str, Any]:
    is_local = provider == "ollama"
    return {
        "context_window": OLLAMA_WINDOW_TOKENS if is_local else DEFAULT_WINDOW_TOKENS,
        "max_output_tokens": DEFAULT_OUTPUT_TOKENS,
        "max_input_tokens": None,
        "images": False,
        "thinking": "none",
        "tool_search": "none",
        "prices": FREE_PRICES if is_local else None,
        "cache_min_tokens": next((min_tokens for family, min_tokens in CACHE_MIN_TOKENS if family in name), 1024),
        "cache_ttl": OPENAI_BREAKPOINT_TTL_SECONDS
        if provider == "openai" and has_breakpoints(name)
        else CACHE_TTL_SECONDS.get(provider, 300.0),
    }


def _validate_override(provider: str, name: str, key: str, value: object) -> object:
    fact_type = SETTABLE_FACTS[key]
    allowed_values = TOOL_SEARCH_KINDS.get(provider, ("none",)) if key == "tool_search" else THINKING_KINDS
    is_number = fact_type is int and isinstance(value, int) and not isinstance(value, bool) and value > 0
    if is_number or (
        fact_type is not int and isinstance(value, fact_type) and (fact_type is not str or value in allowed_values)
    ):
        return value
    expectation_by_type = {
        int: "a whole number above 0",
        bool: "true or false",
        str: f"one of {', '.join(allowed_values)}",
    }
    raise ConfigError(
        f'`providers.{provider}.models."{name}".{key}` is {value!r}: '
        f"it must be {expectation_by_type.get(fact_type, 'a table')}."
    )


def _merged_prices(user_prices: Mapping[str, object], known_prices: Prices | None, model: str) -> Prices:
    """Merge the user's prices into the known ones. If the user sets both `input` and `output`, all known prices are
    dropped, even those for long requests."""
    allowed_keys = {field.name for field in fields(Prices)}
    prices = {
        key: float(value)
        for key, value in user_prices.items()
        if key in allowed_keys and isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    }
    if len(prices) != len(user_prices):
        raise ConfigError(
            f"the prices of {model} must be numbers: US dollars per million tokens, by {sorted(allowed_keys)}."
        )
    if "long_above" in prices:
        prices["long_above"] = int(prices["long_above"])
    if known_prices is not None and not {"input", "output"} <= prices.keys():
        return replace(known_prices, **cast(dict[str, Any], prices))
    if not {"input", "output"} <= prices.keys():
        raise ConfigError(f"the prices of {model} must have `input` and `output`.")
    cache_defaults = {"cache_read": prices["input"], "cache_write": prices["input"]}
    return Prices(**cast(dict[str, Any], {**cache_defaults, **prices}))
