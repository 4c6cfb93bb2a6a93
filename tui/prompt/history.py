"""The prompt history, across sessions and projects.

Each line of the file is a message as JSON: a string, or an object with its project. Several programs may append at the
same time.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.lazy import dataclass

MAX_ENTRY_CHARS = 65_536
"""Maximum characters of a stored message."""
_MAX_READ_BYTES = 8 * 1024 * 1024
"""Bytes read from the end of the file: many thousands of the newest messages."""


class History:
    """Earlier messages without duplicates, those of this project first. If the file is unusable, only the history is
    lost."""

    def __init__(self, file: Path | None, project: str = "") -> None:
        """Without a file it lasts only for this run. The file is read on demand."""
        self._file = file
        self._project = project
        self._said: dict[str, bool] = {}
        """All messages, newest last, and whether each is from this project."""
        self._read_to = 0
        self._walk: tuple[str, ...] = ()
        """The messages that Up and Down step through, newest first, fixed at the first press."""
        self._place = -1
        self._draft = ""

    def add(self, text: str) -> None:
        """Store a message, unless it starts with a space or is a `/key` command, which may contain a key."""
        if text and not text[0].isspace() and text.split(maxsplit=1)[0] != "/key":
            is_again = next(reversed(self._said.items()), None) == (text, True)
            self._take(text, True)
            if self._file is not None and len(text) <= MAX_ENTRY_CHARS and not is_again:
                with contextlib.suppress(OSError):  # a full or read-only disk costs the history, never the message
                    _append(self._file, self._line_of(text))
        self.rest()

    def entries(self) -> tuple[str, ...]:
        """All messages, newest first: this project's, then others, including those added by other programs since."""
        self._catch_up()
        newest = list(reversed(self._said.items()))
        return tuple(text for wanted in (True, False) for text, is_own in newest if is_own is wanted)

    def older(self, current: str) -> str | None:
        """The message before the current one, or None at the start. The unsent text is kept for `newer`."""
        if self._place < 0:
            self._walk, self._draft = self.entries(), current
        if self._place + 1 >= len(self._walk):
            return None
        self._place += 1
        return self._walk[self._place]

    def newer(self) -> str | None:
        """The message after the current one, and finally the unsent text; None if there is nothing newer."""
        if self._place < 0:
            return None
        self._place -= 1
        return self._walk[self._place] if self._place >= 0 else self._draft

    def rest(self) -> None:
        """Return to the end of the history."""
        self._walk, self._place, self._draft = (), -1, ""

    def _take(self, text: str, is_own: bool) -> None:
        self._said[text] = self._said.pop(text, False) or is_own

    def _line_of(self, text: str) -> bytes:
        entry = {"text": text, "project": self._project} if self._project else text
        return json.dumps(entry).encode() + b"\n"

    def _catch_up(self) -> None:
        if self._file is None:
            return
        try:
            size = self._file.stat().st_size
            if size < self._read_to:  # somebody has made it shorter
                self._read_to = 0
            if size == self._read_to:
                return
            start = max(self._read_to, size - _MAX_READ_BYTES)
            with self._file.open("rb") as file:
                file.seek(start)
                data = file.read(size - start)
        except OSError:
            return
        whole = data.rfind(b"\n") + 1 or len(data)
        self._read_to = start + whole
        for text, project in _entries(data[:whole]):
            self._take(text, bool(self._project) and project == self._project)


@dataclass(frozen=True, slots=True)
class HistorySearch:
    """A search for one word and its matches."""

    sought: str = ""
    found: tuple[str, ...] = ()
    at: int = 0

    @property
    def current(self) -> str:
        """The current match; empty if there is none."""
        return self.found[self.at] if self.found else ""

    @property
    def place(self) -> tuple[int, int]:
        """The range of the word in the match."""
        start = _fold_case(self.current, self.sought).find(_fold_case(self.sought, self.sought))
        return (start, start + len(self.sought)) if self.sought and start >= 0 else (0, 0)

    def older(self) -> "HistorySearch":
        return HistorySearch(self.sought, self.found, min(self.at + 1, max(len(self.found) - 1, 0)))

    def newer(self) -> "HistorySearch":
        return HistorySearch(self.sought, self.found, max(self.at - 1, 0))


def looked_for(sought: str, entries: Sequence[str], before: HistorySearch | None = None) -> HistorySearch:
    """Search for a word, starting at the previous match if it still matches. Case matters if the word has capitals."""
    wanted = _fold_case(sought, sought)
    found = tuple(entry for entry in entries if wanted in _fold_case(entry, sought))
    at = found.index(before.current) if before is not None and before.current in found else 0
    return HistorySearch(sought, found, at)


def _fold_case(text: str, sought: str) -> str:
    """The text for comparison, of the same length."""
    if sought != sought.lower():
        return text
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text


def _entries(data: bytes) -> Iterator[tuple[str, str]]:
    """The texts with their projects; unreadable lines are skipped."""
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
    """Append a whole line, safe against concurrent or interrupted writes of other programs."""
    make_private(file.parent)
    handle = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "r+b", buffering=0) as stream:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line
        left = memoryview(line)
        while left:
            left = left[stream.write(left) :]
