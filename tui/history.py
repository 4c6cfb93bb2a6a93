"""What the user typed before, across sessions. A history knows its file and no widget."""

import contextlib
import json
import os
from pathlib import Path

_KEPT = 1_000


class History:
    """Messages of the past, oldest first. A file that cannot be read or written costs the history, never a message."""

    def __init__(self, file: Path | None) -> None:
        """Without a file it is a history of this run only."""
        self._file = file
        self._entries = _read(file)[-_KEPT:] if file is not None else []
        self._place = len(self._entries)
        self._draft = ""

    def add(self, text: str) -> None:
        """Remembers a message, unless it is the last one again."""
        if not self._entries or self._entries[-1] != text:
            self._entries.append(text)
            if self._file is not None:
                with contextlib.suppress(OSError):  # a full or read-only disk costs the history, never the message
                    _append(self._file, text)
        self.rest()

    def older(self, current: str) -> str | None:
        """The message before the one shown, or None at the beginning. What is being written is kept for `newer`."""
        if self._place == 0:
            return None
        if self._place == len(self._entries):
            self._draft = current
        self._place -= 1
        return self._entries[self._place]

    def newer(self) -> str | None:
        """The message after the one shown, at last what was being written; None when there is nothing newer."""
        if self._place >= len(self._entries):
            return None
        self._place += 1
        return self._entries[self._place] if self._place < len(self._entries) else self._draft

    def rest(self) -> None:
        """Goes back to the end."""
        self._place = len(self._entries)
        self._draft = ""


def _read(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []
    return [text for text in map(_entry, lines) if text]


def _entry(line: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _append(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(handle, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(text) + "\n")
