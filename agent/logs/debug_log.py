"""Debug log of the context engine's decisions, as JSON lines, enabled by `CONTEXT_DEBUG=true`.

Each line has `topic`, `at` (UTC) and the fields listed in `TOPICS`. The file is `context.jsonl` in the log folder;
headless runs also print the lines on standard error.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO, TypeAlias

from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.secrets.redaction import redact_text

MAX_LOG_BYTES = 10_000_000
"""At this size the file is renamed to `context.jsonl.1` and a new one is started."""

Topic: TypeAlias = Literal[
    "context-guard/init-counters",
    "context-guard/loop-init",
    "context-guard/schema-estimate",
    "context-guard/evaluate",
    "context-guard/evaluate-target",
    "context-guard/provider-eval",
    "context-guard/build-metrics",
    "context-guard/enforce",
    "context/ingest",
    "context/cost",
    "context/mask",
    "context/compact",
    "context/emergency",
    "context/prefix-drift",
    "context/cache-break",
    "context/estimate",
    "context/keep-alive",
    "context/resume",
    "context/recall",
    "context/undo",
    "context/final-turn",
    "provider/skipped",
]

_COUNTER_FIELDS = ("currentCtxTokens", "pendingCtxTokens", "newCtxTokens", "schemaCtxTokens")

TOPICS: Mapping[Topic, tuple[str, ...]] = {
    "context-guard/init-counters": _COUNTER_FIELDS,
    "context-guard/loop-init": ("seedTokens", *_COUNTER_FIELDS),
    "context-guard/schema-estimate": ("scale", *_COUNTER_FIELDS),
    "context-guard/evaluate": ("projectedTokens", *_COUNTER_FIELDS, "extraTokens", "currentReasoningTokens"),
    "context-guard/evaluate-target": (
        "provider", "model", "contextWindow", "bufferTokens", "maxOutputTokens", "limit",
    ),
    "context-guard/provider-eval": ("provider", "model", "status", "blocked"),
    "context-guard/build-metrics": _COUNTER_FIELDS,
    "context-guard/enforce": ("reason", "blocked"),
    "context/ingest": ("ref", "tool", "bytes", "lines", "form"),
    "context/cost": ("action", "cold", "carrying_costs", "prices", "removed", "behind", "cost"),
    "context/mask": ("reason", "outputs", "removedTokens", "price"),
    "context/compact": (
        "reason", "strategies", "beforeTokens", "afterTokens", "beforeMessages", "afterMessages", "price",
    ),
    "context/emergency": ("reason", "strategy", "beforeTokens", "afterTokens"),
    "context/prefix-drift": ("where", "model"),
    "context/cache-break": ("cause", "expectedTokens", "readTokens", "model"),
    "context/estimate": ("model", "estimated", "counted", "error", "scale", "samples"),
    "context/keep-alive": ("model", "cachedTokens", "readTokens", "writtenTokens", "renewals"),
    "context/resume": ("session", "snapshot", "messages", "milliseconds"),
    "context/recall": ("ref", "query", "scope", "found", "tokens"),
    "context/undo": ("beforeTokens", "afterTokens", "writtenTokens", "heldTokens"),
    "context/final-turn": ("reason", "projectedTokens", "limit"),
    "provider/skipped": ("model", "frames"),
}  # fmt: skip
"""The fields of each topic. Fields that do not apply are omitted."""


def is_enabled(environment: Mapping[str, str]) -> bool:
    """Whether `CONTEXT_DEBUG` enables the debug log."""
    return environment.get("CONTEXT_DEBUG", "").strip().lower() in ("true", "1")


class DebugLog:
    """Writes the debug log. `DebugLog()` is disabled and costs one comparison per call."""

    def __init__(
        self, path: Path | None = None, echo: TextIO | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._echo = echo
        self._now = now

    @property
    def is_enabled(self) -> bool:
        """Whether the log is enabled. Callers check this before they compute expensive fields."""
        return self._path is not None or self._echo is not None

    def log(self, topic: Topic, **fields: object) -> None:
        """Write one line. Never raises: if writing to an output fails, that output is disabled."""
        if not self.is_enabled:
            return
        timestamp = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
        values = {
            name: redact_text(value, os.environ) if isinstance(value, str) else value for name, value in fields.items()
        }
        line = json.dumps({"topic": topic, "at": timestamp, **values}, default=_json_value) + "\n"
        try:
            if self._path is not None:
                _append(self._path, line)
        except OSError:
            self._path = None
        try:
            if self._echo is not None:
                self._echo.write(line)
                self._echo.flush()
        except (OSError, ValueError):  # the stream has been closed
            self._echo = None


def _json_value(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return list(value) if isinstance(value, set | frozenset) else str(value)


def _append(path: Path, line: str) -> None:
    """Append a line to a private file. If the file has become too large, rotate it first."""
    create_private_folder(path.parent)
    descriptor = _open(path)
    if os.fstat(descriptor).st_size + len(line) > MAX_LOG_BYTES:
        os.close(descriptor)
        path.replace(path.with_name(f"{path.name}.1"))
        descriptor = _open(path)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(line)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
