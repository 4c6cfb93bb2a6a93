"""Recorded provider answers and their expected meaning."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

WireName = Literal["anthropic", "responses", "chat", "ollama"]
WIRE_PROVIDERS: Mapping[WireName, str] = {
    "anthropic": "anthropic",
    "responses": "openai",
    "chat": "openai-chat",
    "ollama": "ollama",
}
"""The provider whose adapter reads each wire format."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """A recorded answer."""

    id: str
    source: str
    """Repository and path, or the report that describes the answer."""
    wire: WireName
    model: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    expected: Mapping[str, Any]

    @property
    def is_error(self) -> bool:
        """Whether the answer is an error rather than a reply."""
        return "error" in self.expected


def recorded_answers(folder: Path) -> Iterator[RecordedAnswer]:
    """Yield the recorded answers in a folder."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            found = json.loads(line)
            yield RecordedAnswer(
                found["id"],
                found["source"],
                found["wire"],
                found.get("model") or "unknown",
                found["status"],
                found.get("headers") or {},
                found["body"].encode("utf-8", "surrogatepass"),
                found["expected"],
            )
