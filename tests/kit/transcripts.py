"""Transcripts as other agents write them, made of what the tests say."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.kit.files import write_file

Json = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def write_lines(path: Path, rows: Iterable[Mapping[str, object] | str]) -> Path:
    """A file of JSON lines; texts stand there as they are."""
    write_file(path, "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


class ClaudeSession:
    """The lines of one of Claude Code's sessions, each after the one before it unless it is told otherwise."""

    def __init__(self, cwd: str, day: str = "2026-03-01") -> None:
        self.lines: list[Json | str] = []
        self._cwd, self._day = cwd, day
        self._last: str | None = None

    def add(self, kind: str, content: object, *, id: str = "", after: str | None = "", **more: object) -> str:
        """A line; its id."""
        number = len(self.lines)
        uuid = id or f"u{number}"
        message: Json = {"role": kind, "content": content}
        if kind == "assistant":
            message |= {"id": more.pop("reply", f"msg_{number}"), "model": "claude-test-1"}
        self.lines.append({
            "parentUuid": self._last if after == "" else after, "isSidechain": False, "cwd": self._cwd,
            "version": "2.0.1", "sessionId": "s", "type": kind, "message": message, "uuid": uuid,
            "timestamp": f"{self._day}T10:{number // 60:02}:{number % 60:02}.000Z", **more,
        })  # fmt: skip
        self._last = uuid
        return uuid

    def write(self, path: Path) -> Path:
        return write_lines(path, self.lines)


def said(text: str) -> Json:
    return {"type": "text", "text": text}


def use(id: str, name: str, **arguments: object) -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def result(id: str, content: object, *, failed: bool = False) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **({"is_error": True} if failed else {})}
