"""Generates agent/providers/models/*.json from LiteLLM's model table. Run manually when models or prices change:

pip download litellm --no-deps -d build && unzip -o build/litellm-*.whl -d build
python -m bench.make_models build/litellm/model_prices_and_context_window_backup.json 1.110.2"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from ebbtide.tui.integrations.models.table_conversion import SOURCES, convert_table
from ebbtide.tui.integrations.models.updates import table_text

TARGET = Path(__file__).parent.parent / "agent" / "providers" / "models"

TOOL_SEARCH_SOURCE = (
    "for Anthropic the page on tool search in its documentation (Opus and Sonnet from 4.0, Haiku from 4.5, Mythos), "
    "for OpenAI LiteLLM's `supports_tool_search` for the models that its own guide names (5.4 and later), "
    "both read on 2026-11-22"
)


def main(path: str, version: str) -> None:
    table = json.loads(Path(path).read_text(encoding="utf-8"))
    TARGET.mkdir(exist_ok=True)
    source = f"LiteLLM {version}, model_prices_and_context_window_backup.json (MIT licence)"
    for provider in SOURCES:
        rows = convert_table(table, provider)
        notes = {"tool_search": TOOL_SEARCH_SOURCE} if provider in ("anthropic", "openai") else {}
        target = TARGET / f"{provider}.json"
        target.write_text(table_text(rows, source, datetime.now(UTC).date().isoformat(), notes), encoding="utf-8")
        print(f"{target.name}: {len(rows)} models, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:3])
