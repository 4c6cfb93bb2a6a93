"""Alternative names of settings, as used by other programs. A value is changed only if the name requires it.

Every key may also be written in camel case. A setting stores the name that the user wrote, so that `ebb config` can
show it.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from ebbtide.agent.config.options import OPTIONS_BY_KEY
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

RENAMED_KEYS = {"mcp.startup_timeout": "mcp.wait", "rewrite.patience": "context.style"}
"""Former names of this program's own keys."""

_AGENT_TABLES = ("agent", "defaults", "options", "compaction", "tool_output_cache", "prune", "")
"""Tables treated as equivalent to `[agent]`."""

COMPACTION_OFF_VALUES = {
    "disable_auto_summarize": True,
    "compaction.enabled": False,
    "compaction.auto": False,
}
"""Keys and the values with which they turn off compaction before the window is full. With the opposite value, they have
no effect."""

IGNORED_KEYS = {
    "condense_after_n": "what is condensed is decided by price and age, not by a number of messages",
    "remove_errors_after": "errors are condensed and never removed, so that each call keeps its output",
    "tool_output_cache.enabled": "large outputs are always stored in full",
}


@dataclass(frozen=True, slots=True)
class AliasedSetting:
    key: str
    value: object
    written_name: str = ""
    """The name that the user wrote, if it differs from the key."""
    ineffective_reason: str = ""
    """Why the setting has no effect; empty if it has one."""


def table_entries(table: Mapping[str, object], allowed_keys: Container[str]) -> Iterator[tuple[str, AliasedSetting]]:
    """Yield the entries of a provider's or model's table, each with its key. An alias is replaced by its
    key, if that key is in `allowed_keys`. Aliases come before the keys themselves."""
    for written_name in sorted(table, key=lambda written_name: snake_case(written_name) not in KEY_ALIASES):
        key = snake_case(written_name)
        real_key = KEY_ALIASES.get(key, key).removeprefix("agent.")
        key = real_key if real_key in allowed_keys else key
        yield key, AliasedSetting(key, table[written_name], "" if key == written_name else written_name)


def snake_case(key: str) -> str:
    """Convert `contextWindow` to `context_window`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower() if re.search(r"[a-z][A-Z]", key) else key


def translate_settings(pairs: Iterable[tuple[str, object]]) -> tuple[AliasedSetting, ...]:
    """Translate keys and values to settings. If a key and its alias are both present, the key takes precedence."""
    settings: list[AliasedSetting] = []
    provider_setting: AliasedSetting | None = None
    for written_name, value in pairs:
        setting = _aliased_setting(written_name, value)
        if setting is None:
            continue
        if setting.key == "summarization_provider":
            provider_setting = setting
        else:
            settings.append(setting)
    return tuple(
        sorted(_with_summary_provider(settings, provider_setting), key=lambda setting: not setting.written_name)
    )


def _aliased_setting(written_name: str, value: object) -> AliasedSetting | None:
    table, _, name = snake_case(written_name).rpartition(".")
    short_name = written_name.rpartition(".")[2] if table in ("agent", "") else written_name
    for key in (f"{table}.{name}", name):
        if key in IGNORED_KEYS and table in _AGENT_TABLES:
            return AliasedSetting(written_name, value, short_name, IGNORED_KEYS[key])
        if key in COMPACTION_OFF_VALUES and table in _AGENT_TABLES:
            if not isinstance(value, bool):
                return AliasedSetting("rewrite.policy", value, short_name)
            return AliasedSetting("rewrite.policy", "off", short_name) if value is COMPACTION_OFF_VALUES[key] else None
        if key in TABLE_ALIASES and table in _AGENT_TABLES and table != "agent":
            return AliasedSetting(TABLE_ALIASES[key], value, short_name)
    if table in _AGENT_TABLES and name in ("summarization_provider", "summarization_model"):
        key = "summarization_provider" if name.endswith("provider") else "agent.summary_model"
        return AliasedSetting(key, value, short_name)
    if table in _AGENT_TABLES and name in KEY_ALIASES:
        return AliasedSetting(KEY_ALIASES[name], value, short_name)
    if table in _AGENT_TABLES[1:-1] or (table == "" and (name != written_name or f"agent.{name}" in OPTIONS_BY_KEY)):
        return AliasedSetting(f"agent.{name}", value, short_name)
    key = f"{table}.{name}" if table else name
    key = RENAMED_KEYS.get(key, key)
    return AliasedSetting(key, value, short_name if key != written_name else "")


def _with_summary_provider(
    settings: list[AliasedSetting], provider_setting: AliasedSetting | None
) -> list[AliasedSetting]:
    """Combine the summary provider and the summary model into `provider/model`."""
    if provider_setting is None:
        return settings
    combined = []
    for setting in settings:
        if setting.key == "agent.summary_model" and setting.written_name and isinstance(setting.value, str):
            names = f"{provider_setting.written_name}, {setting.written_name}"
            setting = AliasedSetting(setting.key, f"{provider_setting.value}/{setting.value}", names)
            provider_setting = None
        combined.append(setting)
        if provider_setting is None:
            break
    combined += settings[len(combined) :]
    if provider_setting is not None:
        reason = "it names no model; add `summarization_model`, or set `agent.summary_model` to PROVIDER/NAME"
        combined.append(
            AliasedSetting(provider_setting.key, provider_setting.value, provider_setting.written_name, reason)
        )
    return combined
