"""Converts LiteLLM's table of models to the registry's tables. No I/O."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

ModelRow: TypeAlias = dict[str, Any]


class ProviderSource(NamedTuple):
    """Selects the entries for one of our providers."""

    names: tuple[str, ...]
    """LiteLLM's names for the provider."""
    prefix: str = ""
    """Prefix of model names in LiteLLM's table. It is removed."""
    thinking: Literal["model_api", "effort", "none"] = "none"
    """How thinking is requested: through the model's own API (`model_api`), as an effort level (`effort`), or not at
    all (`none`)."""


SOURCES: Mapping[str, ProviderSource] = {
    "anthropic": ProviderSource(("anthropic",), thinking="model_api"),
    "openai": ProviderSource(("openai",), thinking="effort"),
    "azure": ProviderSource(("azure",), "azure/", "effort"),
    "bedrock": ProviderSource(("bedrock", "bedrock_converse"), thinking="model_api"),
    "foundry": ProviderSource(("azure_ai",), "azure_ai/", "model_api"),
    "vertex": ProviderSource(("vertex_ai-anthropic_models",), "vertex_ai/", "model_api"),
    "cerebras": ProviderSource(("cerebras",), "cerebras/", "effort"),
    "deepseek": ProviderSource(("deepseek",), "deepseek/"),
    "fireworks": ProviderSource(("fireworks_ai",), "fireworks_ai/"),
    "gemini": ProviderSource(("gemini",), "gemini/", "effort"),
    "groq": ProviderSource(("groq",), "groq/", "effort"),
    "mistral": ProviderSource(("mistral",), "mistral/"),
    "together": ProviderSource(("together_ai",), "together_ai/"),
    "xai": ProviderSource(("xai",), "xai/", "effort"),
}
"""How to find each provider's models in LiteLLM's table. OpenRouter and Hugging Face are missing because they report
context windows and prices themselves. GitHub Models is missing because LiteLLM has no data for it."""
CLAUDE_ONLY_PROVIDERS = ("bedrock", "foundry", "vertex")
"""Cloud providers that are used only for Anthropic's models."""
EXCLUDED_NAMES = re.compile(
    r"^ft:|audio|realtime|search|deep-research|transcribe|tts|image|container|-chat-latest|robotics|learnlm|gov|"
    r"^(?:apac|eu|us|global|[a-z]+-[a-z]+-\d)/|^bedrock/"
)
OLD_COMPLETIONS = re.compile(r"^(?:gpt|davinci|babbage).*instruct")
DATE_SUFFIX = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|default)(?=$|-v\d)")
WINDOWS_INCLUDING_REPLY = (400_000, 1_050_000)
"""Context windows of certain OpenAI models. For these models, LiteLLM's `max_input_tokens` does not include the
reply."""

TOOL_SEARCH_MODELS = re.compile(r"claude-(?:opus|sonnet|haiku|mythos)-")
"""Model families that support tool search."""

PRICE_KEYS = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}


def convert_table(table: Mapping[str, object], provider: str) -> dict[str, ModelRow]:
    """Build the rows for a provider's models, by model name. Entries in an unknown format are skipped."""
    rows = dict(_converted_rows(table, provider, SOURCES[provider]))
    # Omit dated names that have the same data as the undated name.
    return {
        name: row
        for name, row in rows.items()
        if DATE_SUFFIX.sub("", name) == name or rows.get(DATE_SUFFIX.sub("", name)) != row
    }


def _converted_rows(
    table: Mapping[str, object], provider: str, source: ProviderSource
) -> Iterator[tuple[str, ModelRow]]:
    for full_name, entry in sorted(table.items()):
        name = full_name.removeprefix(source.prefix)
        if not isinstance(entry, dict) or entry.get("litellm_provider") not in source.names:
            continue
        if not full_name.startswith(source.prefix) or not name.isprintable():
            continue
        try:
            if _is_for_agents(name, entry) and (provider not in CLAUDE_ONLY_PROVIDERS or "claude" in full_name):
                yield name, _convert_row(entry, source) | _tool_search_fields(full_name, entry)
        except (TypeError, ValueError, OverflowError):
            continue


def _is_for_agents(name: str, entry: ModelRow) -> bool:
    is_usable = entry.get("mode") in ("chat", "responses") and entry.get("supports_function_calling")
    is_complete = all(key in entry for key in ("max_input_tokens", "max_output_tokens", "input_cost_per_token"))
    return bool(is_usable and is_complete and not EXCLUDED_NAMES.search(name) and not OLD_COMPLETIONS.search(name))


def _convert_row(entry: ModelRow, source: ProviderSource) -> ModelRow:
    max_input_tokens = int(entry["max_input_tokens"])
    output = min(int(entry["max_output_tokens"]), max_input_tokens)
    row: ModelRow = {"context_window": max_input_tokens, "max_output_tokens": output}
    if max_input_tokens + output in WINDOWS_INCLUDING_REPLY and source.thinking == "effort":
        row |= {"context_window": max_input_tokens + output, "max_input_tokens": max_input_tokens}
    row["prices"] = _convert_prices(entry)
    row["images"] = bool(entry.get("supports_vision"))
    row["thinking"] = _thinking_kind(entry, source)
    return row


def _convert_prices(entry: ModelRow) -> ModelRow:
    """Get prices per million tokens. Where a price is missing, the normal input price is used."""
    prices = {
        name: _per_million(entry[key if key in entry else PRICE_KEYS["input"]]) for name, key in PRICE_KEYS.items()
    }
    for tier in (
        match[1] for key in entry if (match := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))
    ):
        prices["long_above"] = int(tier) * 1000
        for name, base in PRICE_KEYS.items():
            base_key = base if base in entry else PRICE_KEYS["input"]
            tier_key = f"{base_key}_above_{tier}k_tokens"
            prices[f"long_{name}"] = _per_million(entry[tier_key if tier_key in entry else base_key])
    return prices


def _per_million(price: float) -> float:
    return round(price * 1_000_000, 6)


def _thinking_kind(entry: ModelRow, source: ProviderSource) -> str:
    if not entry.get("supports_reasoning") or source.thinking == "none":
        return "none"
    if source.thinking == "effort":
        return "effort"
    return "adaptive" if entry.get("supports_adaptive_thinking") else "budget"


def _tool_search_fields(name: str, entry: ModelRow) -> ModelRow:
    """Describe how the provider can search deferred tools for this model; empty if it cannot."""
    if entry["litellm_provider"] == "anthropic":
        return {"tool_search": "plain"} if TOOL_SEARCH_MODELS.match(name) else {}
    if entry["litellm_provider"] != "openai":
        return {}
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    is_new_enough = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 4)
    return {"tool_search": "grouped"} if is_new_enough and entry.get("supports_tool_search") else {}
