"""Which files the model has seen, and as what. It knows no tool and reads nothing by itself."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class SeenFiles:
    """The files of one session that a tool has shown to the model or written for it."""

    digests: dict[Path, str] = field(default_factory=dict)
    """SHA-256 of the bytes that were seen."""

    def note(self, path: Path, content: bytes) -> None:
        """Remembers that the model knows this content of the file."""
        self.digests[path] = _digest(content)

    def forget(self, path: Path) -> None:
        self.digests.pop(path, None)

    def knows(self, path: Path) -> bool:
        return path in self.digests

    def is_current(self, path: Path, content: bytes) -> bool:
        """Whether the file still holds what the model saw. A touched but unchanged file counts as current."""
        return self.digests.get(path) == _digest(content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
