"""Which files the model has seen, and as what. It knows no tool and no session."""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

Look: TypeAlias = Literal["current", "outdated", "never"]


@dataclass(slots=True)
class SeenFiles:
    """The files of one session that a tool has shown to the model or written for it."""

    digests: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the bytes that were seen."""
    looks: dict[Path, str] = field(default_factory=dict)
    """The same of files of which only a part may have been shown, by a command or a search."""
    encodings: dict[Path, str] = field(default_factory=dict)
    """The codecs that the model has named for files."""

    def note(self, path: Path, content: bytes) -> None:
        """Remembers that the model knows this content of the file."""
        self.digests[path] = _digest(content)

    def look(self, path: Path, content: bytes) -> None:
        """Remembers that something of the file was shown while it held this."""
        self.looks[path] = _digest(content)

    def forget(self, path: Path) -> None:
        self.digests.pop(path, None)
        self.looks.pop(path, None)

    def knows(self, path: Path) -> bool:
        return path in self.digests

    def is_current(self, path: Path, content: bytes) -> bool:
        """Whether the file still holds what the model saw. A touched but unchanged file counts as current."""
        return self.digests.get(path) == _digest(content)

    def last_look(self, path: Path, content: bytes) -> Look:
        """What is known of the file by any look at it."""
        known = {seen[path] for seen in (self.digests, self.looks) if path in seen}
        if not known:
            return "never"
        return "current" if _digest(content) in known else "outdated"


@dataclass(frozen=True, slots=True)
class Differences:
    changed: tuple[Path, ...] = ()
    """Files that hold something else than what was seen."""
    deleted: tuple[Path, ...] = ()


def differences(digests: Mapping[Path, str]) -> Differences:
    """How the files on disk differ from what was seen of them."""
    changed: list[Path] = []
    gone: list[Path] = []
    for path, digest in digests.items():
        try:
            if _digest_of_file(path) != digest:
                changed.append(path)
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
        except OSError:
            changed.append(path)  # what cannot be read is not what was seen
    return Differences(tuple(changed), tuple(gone))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of_file(path: Path) -> str:
    if not path.is_file() and path.exists():
        raise IsADirectoryError(path)  # nor is a pipe opened, which would wait for its other end
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
