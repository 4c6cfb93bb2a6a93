"""Alternative names of settings, as used by other programs. Values are only changed where needed.

Every key may also be written in camel case. A setting remembers the name that was written, so that `ebb config` can
show it."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from ebbtide.agent.config.options import BY_KEY
from ebbtide.tools.lazy import dataclass

KEY_ALIASES = {
    "context_budget": "agent.context_window",
    "context_window_tokens": "agent.context_window",
    "max_tokens": "agent.max_output_tokens",
    "buffer_tokens": "agent.context_window_buffer_tokens",
    "context_buffer_tokens": "agent.context_window_buffer_tokens",
    "tool_response_max_bytes": "agent.result_offload_threshold",
    "context_budget_tokens": "agent.protect_tokens",
    "tools_allowed": "tools.allowed",
    "tools_denied": "tools.denied",
    "reasoning": "agent.reasoning_effort",
}
"""Aliases that apply in any table."""

TABLE_ALIASES = {
    "compaction.model": "agent.summary_model",
    "max_message_bytes": "agent.max_message_bytes",
    "max_line_length": "agent.max_line_length",
}

RENAMED_KEYS = {"mcp.startup_timeout": "mcp.wait"}
"""Former names of our keys."""

_TABLES = ("agent", "defaults", "options", "compaction", "tool_output_cache", "prune", "")
"""Tables that are equivalent to `[agent]`."""

SWITCHES = {
    "disable_auto_summarize": True,
    "compaction.enabled": False,
    "compaction.auto": False,
}
"""Keys that turn early rewriting off when they have this value; the other value has no effect."""

WITHOUT_EFFECT = {
    "condense_after_n": "what is condensed is decided by price and age, not by a number of messages",
    "remove_errors_after": "errors are condensed and never removed, so that each call keeps its output",
    "tool_output_cache.enabled": "large outputs are always kept whole",
}


@dataclass(frozen=True, slots=True)
class AliasedSetting:
    key: str
    value: object
    written: str = ""
    """The name that was written, if it is not the key."""
    without_effect: str = ""
    """Why the setting has no effect."""


def own_names(table: Mapping[str, object], allowed: Container[str]) -> Iterator[tuple[str, AliasedSetting]]:
    """Yield the entries of a provider's or model's table, by their actual key if that is in `allowed`, with the written
    name. Aliases of a key come before the key."""
    for written in sorted(table, key=lambda written: snake_case(written) not in KEY_ALIASES):
        key = snake_case(written)
        meant = KEY_ALIASES.get(key, key).removeprefix("agent.")
        key = meant if meant in allowed else key
        yield key, AliasedSetting(key, table[written], "" if key == written else written)


def snake_case(key: str) -> str:
    """Convert `contextWindow` to `context_window`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower() if re.search(r"[a-z][A-Z]", key) else key


def translate(pairs: Iterable[tuple[str, object]]) -> tuple[AliasedSetting, ...]:
    """Translate keys and values to settings. If a key and an alias of it are both present, the key wins."""
    settings: list[AliasedSetting] = []
    provider: AliasedSetting | None = None
    for written, value in pairs:
        setting = _aliased_setting(written, value)
        if setting is None:
            continue
        if setting.key == "summarization_provider":
            provider = setting
        else:
            settings.append(setting)
    return tuple(sorted(_with_provider(settings, provider), key=lambda setting: not setting.written))


def _aliased_setting(written: str, value: object) -> AliasedSetting | None:
    table, _, name = snake_case(written).rpartition(".")
    short = written.rpartition(".")[2] if table in ("agent", "") else written
    for key in (f"{table}.{name}", name):
        if key in WITHOUT_EFFECT and table in _TABLES:
            return AliasedSetting(written, value, short, WITHOUT_EFFECT[key])
        if key in SWITCHES and table in _TABLES:
            if not isinstance(value, bool):
                return AliasedSetting("rewrite.policy", value, short)
            return AliasedSetting("rewrite.policy", "off", short) if value is SWITCHES[key] else None
        if key in TABLE_ALIASES and table in _TABLES and table != "agent":
            return AliasedSetting(TABLE_ALIASES[key], value, short)
    if table in _TABLES and name in ("summarization_provider", "summarization_model"):
        key = "summarization_provider" if name.endswith("provider") else "agent.summary_model"
        return AliasedSetting(key, value, short)
    if table in _TABLES and name in KEY_ALIASES:
        return AliasedSetting(KEY_ALIASES[name], value, short)
    if table in _TABLES[1:-1] or (table == "" and (name != written or f"agent.{name}" in BY_KEY)):
        return AliasedSetting(f"agent.{name}", value, short)
    key = f"{table}.{name}" if table else name
    key = RENAMED_KEYS.get(key, key)
    return AliasedSetting(key, value, short if key != written else "")


def _with_provider(settings: list[AliasedSetting], provider: AliasedSetting | None) -> list[AliasedSetting]:
    """Combine the summary provider and the summary model into `provider/model`."""
    if provider is None:
        return settings
    joined = []
    for setting in settings:
        if setting.key == "agent.summary_model" and setting.written and isinstance(setting.value, str):
            names = f"{provider.written}, {setting.written}"
            setting = AliasedSetting(setting.key, f"{provider.value}/{setting.value}", names)
            provider = None
        joined.append(setting)
        if provider is None:
            break
    joined += settings[len(joined) :]
    if provider is not None:
        reason = "it names no model; add `summarization_model`, or set `agent.summary_model` to PROVIDER/NAME"
        joined.append(AliasedSetting(provider.key, provider.value, provider.written, reason))
    return joined
