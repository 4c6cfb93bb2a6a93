"""Downloads newer model tables, and removes downloaded ones."""

import json
import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

from ebbtide.agent.errors import UsageError
from ebbtide.agent.providers.registry import registry_rows
from ebbtide.tui.integrations.models.table_conversion import SOURCES, ModelRow, convert_table

TABLE_URL = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"
"""LiteLLM's table of models (MIT licence). The registry's tables are made from it."""
MAX_TABLE_BYTES = 64 << 20
DOWNLOAD_TIMEOUT_S = 60
_REQUIRED_PROVIDERS = ("anthropic", "openai")
"""Providers for which any valid table must contain models."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """How many of a provider's models an update changed, by kind of change."""

    provider: str
    total: int
    new: int
    changed: int
    removed: int


def update_tables(source: str, folder: Path) -> tuple[TableChange, ...]:
    """Convert LiteLLM's table and write the registry's tables to `folder`. `source`: a URL or a file. Returns what has
    changed. If `UsageError` is raised, nothing has been written."""
    table = _read_table(source)
    tables = {provider: convert_table(table, provider) for provider in SOURCES}
    if not all(tables[provider] for provider in _REQUIRED_PROVIDERS):
        raise UsageError(f"{source} has no models of Anthropic or OpenAI in the format of LiteLLM's table")
    changes = tuple(
        _count_changes(provider, registry_rows(provider, folder), rows) for provider, rows in tables.items()
    )
    timestamp = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for provider, rows in tables.items():
            temporary_file = folder / f"{provider}.json.new"
            temporary_file.write_text(table_text(rows, source, timestamp, {}), encoding="utf-8")
            os.replace(temporary_file, folder / f"{provider}.json")
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    return changes


def remove_tables(folder: Path) -> int:
    """Delete the tables written by updates. Returns how many there were. Raises `UsageError`."""
    paths = [folder / f"{provider}.json" for provider in SOURCES if (folder / f"{provider}.json").exists()]
    try:
        for path in paths:
            path.unlink()
    except OSError as error:
        raise UsageError(f"cannot delete {error.filename}: {error.strerror}") from error
    return len(paths)


def table_text(rows: Mapping[str, ModelRow], source: str, date: str, notes: Mapping[str, str]) -> str:
    """Format a registry table as JSON with one model per line. `date`: when the table was made, in ISO 8601 format."""
    metadata = {"source": source, "date": date, **notes, "unit": "tokens; US dollars per million tokens"}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in metadata.items()]
    models = ",\n".join(f"    {json.dumps(model)}: {json.dumps(row)}" for model, row in rows.items())
    return "{\n" + ",\n".join([*lines, '  "models": {\n' + models + "\n  }"]) + "\n}\n"


def _read_table(source: str) -> Mapping[str, object]:
    try:
        if source.startswith(("https://", "http://")):
            with urllib.request.urlopen(source, timeout=DOWNLOAD_TIMEOUT_S) as response:
                content = response.read(MAX_TABLE_BYTES + 1)
        else:
            with Path(source).expanduser().open("rb") as file:
                content = file.read(MAX_TABLE_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:
        raise UsageError(f"cannot read {source}: {_error_text(error)}; the tables are unchanged") from error
    if len(content) > MAX_TABLE_BYTES:
        raise UsageError(f"{source} is larger than {MAX_TABLE_BYTES >> 20} MiB; the tables are unchanged")
    try:
        table = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source} is not JSON; the tables are unchanged") from error
    if not isinstance(table, dict):
        raise UsageError(f"{source} is not a table of models; the tables are unchanged")
    return table


def _error_text(error: Exception) -> str:
    cause: Any = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause or type(error).__name__)


def _count_changes(provider: str, old_rows: Mapping[str, ModelRow], new_rows: Mapping[str, ModelRow]) -> TableChange:
    changed = sum(name in old_rows and old_rows[name] != row for name, row in new_rows.items())
    return TableChange(
        provider, len(new_rows), len(new_rows.keys() - old_rows.keys()), changed, len(old_rows.keys() - new_rows.keys())
    )
