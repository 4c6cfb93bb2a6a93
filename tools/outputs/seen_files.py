"""Tracks which files, and which versions of them, the model has seen."""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass

ViewState: TypeAlias = Literal["current", "outdated", "never"]


@dataclass(slots=True)
class SeenFiles:
    """The files that the model has seen or written in one session."""

    digests: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the content that was shown, by file."""
    partial_digests: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the full content, by file, for files that a command or search may have shown in part."""
    encodings: dict[Path, str] = field(default_factory=dict)
    """The encodings that the model has specified for files."""

    def record_content(self, path: Path, content: bytes) -> None:
        """Record that the model has seen or written this content."""
        self.digests[path] = _digest(content)

    def record_partial_view(self, path: Path, content: bytes) -> None:
        """Record that the model has seen part of this content."""
        self.partial_digests[path] = _digest(content)

    def forget(self, path: Path) -> None:
        self.digests.pop(path, None)
        self.partial_digests.pop(path, None)

    def has_seen(self, path: Path) -> bool:
        return path in self.digests

    def is_current(self, path: Path, content: bytes) -> bool:
        """Whether `content` is what the model last saw. Modification times are ignored."""
        return self.digests.get(path) == _digest(content)

    def view_state(self, path: Path, content: bytes) -> ViewState:
        """Check whether the model has seen this version of the file (in full or in part), an older one, or none."""
        seen_digests = {digests[path] for digests in (self.digests, self.partial_digests) if path in digests}
        if not seen_digests:
            return "never"
        return "current" if _digest(content) in seen_digests else "outdated"


@dataclass(frozen=True, slots=True)
class FileDifferences:
    changed: tuple[Path, ...] = ()
    """Files whose content has changed."""
    deleted: tuple[Path, ...] = ()


def find_changed_files(digests: Mapping[Path, str]) -> FileDifferences:
    """Find files that differ on disk from what the model saw. `digests`: SHA-256 of the content it saw, by path."""
    changed: list[Path] = []
    deleted: list[Path] = []
    for path, digest in digests.items():
        try:
            if _file_digest(path) != digest:
                changed.append(path)
        except (FileNotFoundError, NotADirectoryError):
            deleted.append(path)
        except OSError:
            changed.append(path)  # an unreadable file counts as changed
    return FileDifferences(tuple(changed), tuple(deleted))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _file_digest(path: Path) -> str:
    if not path.is_file() and path.exists():
        raise IsADirectoryError(path)  # also avoids opening a pipe, which could block
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
