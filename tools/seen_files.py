"""Which files the model has seen, and which version of them."""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

Look: TypeAlias = Literal["current", "outdated", "never"]


@dataclass(slots=True)
class SeenFiles:
    """The files of one session that a tool has shown to the model or written."""

    digests: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the content that was shown."""
    looks: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the content of files that a command or a search may have shown in part."""
    encodings: dict[Path, str] = field(default_factory=dict)
    """The codecs that the model has specified for files."""

    def note(self, path: Path, content: bytes) -> None:
        """Record that the model knows this content of the file."""
        self.digests[path] = _digest(content)

    def look(self, path: Path, content: bytes) -> None:
        """Record that part of the file was shown while it had this content."""
        self.looks[path] = _digest(content)

    def forget(self, path: Path) -> None:
        self.digests.pop(path, None)
        self.looks.pop(path, None)

    def knows(self, path: Path) -> bool:
        return path in self.digests

    def is_current(self, path: Path, content: bytes) -> bool:
        """Whether the file still has the content that the model saw. Modification times do not matter."""
        return self.digests.get(path) == _digest(content)

    def last_look(self, path: Path, content: bytes) -> Look:
        """Return whether the file's content was seen, in full or in part."""
        known = {seen[path] for seen in (self.digests, self.looks) if path in seen}
        if not known:
            return "never"
        return "current" if _digest(content) in known else "outdated"


@dataclass(frozen=True, slots=True)
class Differences:
    changed: tuple[Path, ...] = ()
    """Files whose content has changed."""
    deleted: tuple[Path, ...] = ()


def differences(digests: Mapping[Path, str]) -> Differences:
    """Return which files on disk differ from what was seen."""
    changed: list[Path] = []
    gone: list[Path] = []
    for path, digest in digests.items():
        try:
            if _digest_of_file(path) != digest:
                changed.append(path)
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
        except OSError:
            changed.append(path)  # an unreadable file counts as changed
    return Differences(tuple(changed), tuple(gone))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of_file(path: Path) -> str:
    if not path.is_file() and path.exists():
        raise IsADirectoryError(path)  # also avoids opening a pipe, which would block
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
