"""Generates agent/providers/models.json from LiteLLM's model table. Run manually when models or prices change:

pip download litellm --no-deps -d build && unzip -o build/litellm-*.whl -d build
python -m bench.make_models build/litellm/model_prices_and_context_window_backup.json 1.109.1"""

import json
import re
import sys
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]

TARGET = Path(__file__).parent.parent / "agent" / "providers" / "models.json"
PROVIDERS = ("anthropic", "openai")
NOT_FOR_AGENTS = re.compile(
    r"^ft:|audio|realtime|search|deep-research|transcribe|tts|image|container|-chat-latest|instruct"
)
DATE = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
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
    models = {provider: rows_of(table, provider) for provider in PROVIDERS}
    lines = [
        f'  "source": "LiteLLM {version}, model_prices_and_context_window_backup.json (MIT licence)"',
        f'  "tool_search": {json.dumps(TOOL_SEARCH_SOURCE)}',
        '  "unit": "tokens; US dollars per million tokens"',
        '  "models": {\n' + ",\n".join(provider_text(name, rows) for name, rows in models.items()) + "\n  }",
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{TARGET}: {sum(map(len, models.values()))} models, {TARGET.stat().st_size} bytes")


def provider_text(name: str, rows: dict[str, Row]) -> str:
    """One model per line, for readable diffs."""
    inner = ",\n".join(f"      {json.dumps(model)}: {json.dumps(row)}" for model, row in rows.items())
    return f"    {json.dumps(name)}: {{\n{inner}\n    }}"


def rows_of(table: dict[str, Row], provider: str) -> dict[str, Row]:
    rows = {
        name: row_of(entry) | tool_search_of(name, entry)
        for name, entry in sorted(table.items())
        if entry.get("litellm_provider") == provider and is_for_agents(name, entry)
    }
    # A dated name with the same data as its base name is omitted.
    return {
        name: row for name, row in rows.items() if DATE.sub("", name) == name or rows.get(DATE.sub("", name)) != row
    }


def is_for_agents(name: str, entry: Row) -> bool:
    usable = entry.get("mode") in ("chat", "responses") and entry.get("supports_function_calling")
    complete = all(key in entry for key in ("max_input_tokens", "max_output_tokens", "input_cost_per_token"))
    return bool(usable and complete and not NOT_FOR_AGENTS.search(name))


def row_of(entry: Row) -> Row:
    longest_input, output = int(entry["max_input_tokens"]), int(entry["max_output_tokens"])
    row: Row = {"context_window": longest_input, "max_output_tokens": output}
    if longest_input + output in SEPARATE_LIMITS:
        row |= {"context_window": longest_input + output, "max_input_tokens": longest_input}
    row["prices"] = prices_of(entry)
    row["images"] = bool(entry.get("supports_vision"))
    row["thinking"] = thinking_of(entry)
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


def thinking_of(entry: Row) -> str:
    if not entry.get("supports_reasoning"):
        return "none"
    if entry["litellm_provider"] == "openai":
        return "effort"
    return "adaptive" if entry.get("supports_adaptive_thinking") else "budget"


def tool_search_of(name: str, entry: Row) -> Row:
    """How the model's provider searches deferred tools, if it does."""
    if entry["litellm_provider"] == "anthropic":
        return {"tool_search": "plain"} if ANTHROPIC_SEARCH.match(name) else {}
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    is_late = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 4)
    return {"tool_search": "grouped"} if is_late and entry.get("supports_tool_search") else {}


if __name__ == "__main__":
    main(*sys.argv[1:3])
