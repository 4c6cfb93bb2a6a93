"""The prompt history, across sessions and projects.

Each line of the file is a message in JSON: a string, or an object that also contains the project. Several programs may
append at the same time.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.lazy import dataclass

MAX_ENTRY_CHARS = 65_536
"""Maximum length of a stored message in characters."""
_MAX_READ_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes read from the end of the file. That is enough for many thousands of messages."""


class History:
    """Earlier messages without duplicates, this project's first. If the file cannot be read or written, history is lost
    without an error."""

    def __init__(self, file: Path | None, project: str = "") -> None:
        """`file`: where messages are stored. It is read on demand. If None, messages are kept only for this run."""
        self._file = file
        self._project = project
        self._entries: dict[str, bool] = {}
        """All messages, newest last. The value is whether a message is from this project."""
        self._read_offset = 0
        self._browsed_messages: tuple[str, ...] = ()
        """The messages that Up and Down step through, newest first. Fixed when either key is first pressed."""
        self._position = -1
        self._draft = ""

    def add(self, text: str) -> None:
        """Store a message. Skips messages that start with a space, and `/key` commands, which may contain a key."""
        if text and not text[0].isspace() and text.split(maxsplit=1)[0] != "/key":
            is_repeat = next(reversed(self._entries.items()), None) == (text, True)
            self._add_entry(text, True)
            if self._file is not None and len(text) <= MAX_ENTRY_CHARS and not is_repeat:
                with contextlib.suppress(OSError):  # on a full or read-only disk, only the history is lost
                    _append(self._file, self._encode_line(text))
        self.reset()

    def entries(self) -> tuple[str, ...]:
        """Get all messages, newest first, with this project's messages before those of other projects. Includes
        messages that other programs have just added."""
        self._read_new_lines()
        newest = list(reversed(self._entries.items()))
        return tuple(
            text
            for is_this_project in (True, False)
            for text, is_from_project in newest
            if is_from_project is is_this_project
        )

    def step_older(self, unsent_text: str) -> str | None:
        """Get the next older message; None if there is none. The unsent text is kept so that `step_newer` can return
        it."""
        if self._position < 0:
            self._browsed_messages, self._draft = self.entries(), unsent_text
        if self._position + 1 >= len(self._browsed_messages):
            return None
        self._position += 1
        return self._browsed_messages[self._position]

    def step_newer(self) -> str | None:
        """Get the next newer message. After the newest one comes the unsent text, then None."""
        if self._position < 0:
            return None
        self._position -= 1
        return self._browsed_messages[self._position] if self._position >= 0 else self._draft

    def reset(self) -> None:
        """Go back to the newest end of the history."""
        self._browsed_messages, self._position, self._draft = (), -1, ""

    def _add_entry(self, text: str, is_from_project: bool) -> None:
        self._entries[text] = self._entries.pop(text, False) or is_from_project

    def _encode_line(self, text: str) -> bytes:
        entry = {"text": text, "project": self._project} if self._project else text
        return json.dumps(entry).encode() + b"\n"

    def _read_new_lines(self) -> None:
        if self._file is None:
            return
        try:
            size = self._file.stat().st_size
            if size < self._read_offset:  # another program has truncated it
                self._read_offset = 0
            if size == self._read_offset:
                return
            start = max(self._read_offset, size - _MAX_READ_BYTES)
            with self._file.open("rb") as file:
                file.seek(start)
                data = file.read(size - start)
        except OSError:
            return
        complete_size = data.rfind(b"\n") + 1 or len(data)
        self._read_offset = start + complete_size
        for text, project in _parse_entries(data[:complete_size]):
            self._add_entry(text, bool(self._project) and project == self._project)


@dataclass(frozen=True, slots=True)
class HistorySearch:
    """A search in the history and its matches."""

    query: str = ""
    matches: tuple[str, ...] = ()
    index: int = 0

    @property
    def current_match(self) -> str:
        """The current match; empty if there is none."""
        return self.matches[self.index] if self.matches else ""

    @property
    def match_range(self) -> tuple[int, int]:
        """Where the searched text is in the current match; (0, 0) if there is no match."""
        start = _fold_case(self.current_match, self.query).find(_fold_case(self.query, self.query))
        return (start, start + len(self.query)) if self.query and start >= 0 else (0, 0)

    def with_older_match(self) -> "HistorySearch":
        return HistorySearch(self.query, self.matches, min(self.index + 1, max(len(self.matches) - 1, 0)))

    def with_newer_match(self) -> "HistorySearch":
        return HistorySearch(self.query, self.matches, max(self.index - 1, 0))


def search_history(query: str, entries: Sequence[str], previous: HistorySearch | None = None) -> HistorySearch:
    """Search the history. The previous match stays selected if it still matches. Case matters only if `query` contains
    capitals."""
    folded_query = _fold_case(query, query)
    matches = tuple(entry for entry in entries if folded_query in _fold_case(entry, query))
    index = matches.index(previous.current_match) if previous is not None and previous.current_match in matches else 0
    return HistorySearch(query, matches, index)


def _fold_case(text: str, query: str) -> str:
    """Fold the case of text for comparison, unless `query` contains capitals. The length does not change."""
    if query != query.lower():
        return text
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def _parse_entries(data: bytes) -> Iterator[tuple[str, str]]:
    """Parse the messages with their projects. Unreadable lines are skipped."""
    for line in data.decode("utf-8", "replace").split("\n"):
        try:
            value = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(value, dict):
            text, project = value.get("text"), value.get("project", "")
        else:
            text, project = value, ""
        if isinstance(text, str) and text and isinstance(project, str):
            yield text, project


def _append(file: Path, line: bytes) -> None:
    """Append a complete line, even if other programs write at the same time or were interrupted while writing."""
    create_private_folder(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b", buffering=0) as stream:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        remaining = memoryview(line)
        while remaining:
            remaining = remaining[stream.write(remaining) :]
