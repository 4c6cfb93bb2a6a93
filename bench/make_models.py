"""Generates agent/providers/models/*.json from LiteLLM's model table. Run manually when models or prices change:

pip download litellm --no-deps -d build && unzip -o build/litellm-*.whl -d build
python -m bench.make_models build/litellm/model_prices_and_context_window_backup.json 1.110.2"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

Row: TypeAlias = dict[str, Any]

TARGET = Path(__file__).parent.parent / "agent" / "providers" / "models"


class Source(NamedTuple):
    """Which entries are the models of one of our providers."""

    names: tuple[str, ...]
    """LiteLLM's names of the provider."""
    prefix: str = ""
    """Prefix of their names there, which is removed."""
    thinking: Literal["own", "effort", "none"] = "none"
    """How thinking is requested: as the model's own API does, by effort, or not at all."""


SOURCES: Mapping[str, Source] = {
    "anthropic": Source(("anthropic",), thinking="own"),
    "openai": Source(("openai",), thinking="effort"),
    "azure": Source(("azure",), "azure/", "effort"),
    "bedrock": Source(("bedrock", "bedrock_converse"), thinking="own"),
    "foundry": Source(("azure_ai",), "azure_ai/", "own"),
    "vertex": Source(("vertex_ai-anthropic_models",), "vertex_ai/", "own"),
    "cerebras": Source(("cerebras",), "cerebras/", "effort"),
    "deepseek": Source(("deepseek",), "deepseek/"),
    "fireworks": Source(("fireworks_ai",), "fireworks_ai/"),
    "gemini": Source(("gemini",), "gemini/", "effort"),
    "groq": Source(("groq",), "groq/", "effort"),
    "mistral": Source(("mistral",), "mistral/"),
    "together": Source(("together_ai",), "together_ai/"),
    "xai": Source(("xai",), "xai/", "effort"),
}
"""OpenRouter and Hugging Face report windows and prices themselves; for GitHub Models the table has none."""
ONLY_CLAUDE = ("bedrock", "foundry", "vertex")
"""Clouds at which only Anthropic's models are reached."""
NOT_FOR_AGENTS = re.compile(
    r"^ft:|audio|realtime|search|deep-research|transcribe|tts|image|container|-chat-latest|robotics|learnlm|gov|"
    r"^(?:apac|eu|us|global|[a-z]+-[a-z]+-\d)/|^bedrock/"
)
OLD_COMPLETIONS = re.compile(r"^(?:gpt|davinci|babbage).*instruct")
DATE = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|default)(?=$|-v\d)")
SEPARATE_LIMITS = (400_000, 1_050_000)
"""Windows of OpenAI models whose `max_input_tokens` is the window minus the longest reply."""

TOOL_SEARCH_SOURCE = (
    "for Anthropic the page on tool search in its documentation (Opus and Sonnet from 4.0, Haiku from 4.5, Mythos), "
    "for OpenAI LiteLLM's `supports_tool_search` for the models that its own guide names (5.4 and later), "
    "both read on 2026-11-22"
)
ANTHROPIC_SEARCH = re.compile(r"claude-(?:opus|sonnet|haiku|mythos)-")
"""Families in the table; all their models support tool search."""

PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}


def main(path: str, version: str) -> None:
    table: dict[str, Row] = json.loads(Path(path).read_text(encoding="utf-8"))
    TARGET.mkdir(exist_ok=True)
    for provider in SOURCES:
        rows = rows_of(table, provider)
        lines = [
            f'  "source": "LiteLLM {version}, model_prices_and_context_window_backup.json (MIT licence)"',
            *([f'  "tool_search": {json.dumps(TOOL_SEARCH_SOURCE)}'] if provider in ("anthropic", "openai") else []),
            '  "unit": "tokens; US dollars per million tokens"',
            '  "models": {\n' + models_text(rows) + "\n  }",
        ]
        target = TARGET / f"{provider}.json"
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{target.name}: {len(rows)} models, {target.stat().st_size} bytes")


def models_text(rows: dict[str, Row]) -> str:
    """One model per line, for readable diffs."""
    return ",\n".join(f"    {json.dumps(model)}: {json.dumps(row)}" for model, row in rows.items())


def rows_of(table: dict[str, Row], provider: str) -> dict[str, Row]:
    source = SOURCES[provider]
    rows = {
        name.removeprefix(source.prefix): row_of(entry, source) | tool_search_of(name, entry)
        for name, entry in sorted(table.items())
        if entry.get("litellm_provider") in source.names
        and name.startswith(source.prefix)
        and is_for_agents(name.removeprefix(source.prefix), entry)
        and (provider not in ONLY_CLAUDE or "claude" in name)
    }
    # A dated name with the same data as its base name is omitted.
    return {
        name: row for name, row in rows.items() if DATE.sub("", name) == name or rows.get(DATE.sub("", name)) != row
    }


def is_for_agents(name: str, entry: Row) -> bool:
    usable = entry.get("mode") in ("chat", "responses") and entry.get("supports_function_calling")
    complete = all(key in entry for key in ("max_input_tokens", "max_output_tokens", "input_cost_per_token"))
    return bool(usable and complete and not NOT_FOR_AGENTS.search(name) and not OLD_COMPLETIONS.search(name))


def row_of(entry: Row, source: Source) -> Row:
    longest_input = int(entry["max_input_tokens"])
    output = min(int(entry["max_output_tokens"]), longest_input)
    row: Row = {"context_window": longest_input, "max_output_tokens": output}
    if longest_input + output in SEPARATE_LIMITS and source.thinking == "effort":
        row |= {"context_window": longest_input + output, "max_input_tokens": longest_input}
    row["prices"] = prices_of(entry)
    row["images"] = bool(entry.get("supports_vision"))
    row["thinking"] = thinking_of(entry, source)
    return row


def prices_of(entry: Row) -> Row:
    """Prices per million tokens. A missing price is that of normal input."""
    prices = {name: million(entry[key if key in entry else PRICES["input"]]) for name, key in PRICES.items()}
    for tier in (
        found[1] for key in entry if (found := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))
    ):
        prices["long_above"] = int(tier) * 1000
        for name, base in PRICES.items():
            usual = base if base in entry else PRICES["input"]
            above = f"{usual}_above_{tier}k_tokens"
            prices[f"long_{name}"] = million(entry[above if above in entry else usual])
    return prices


def million(price: float) -> float:
    return round(price * 1_000_000, 6)


def thinking_of(entry: Row, source: Source) -> str:
    if not entry.get("supports_reasoning") or source.thinking == "none":
        return "none"
    if source.thinking == "effort":
        return "effort"
    return "adaptive" if entry.get("supports_adaptive_thinking") else "budget"


def tool_search_of(name: str, entry: Row) -> Row:
    """How the model's provider searches deferred tools, if it does."""
    if entry["litellm_provider"] == "anthropic":
        return {"tool_search": "plain"} if ANTHROPIC_SEARCH.match(name) else {}
    if entry["litellm_provider"] != "openai":
        return {}
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    is_late = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 4)
    return {"tool_search": "grouped"} if is_late and entry.get("supports_tool_search") else {}


if __name__ == "__main__":
    main(*sys.argv[1:3])
