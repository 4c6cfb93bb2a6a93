"""Which files the model has seen, and as what. It knows no tool and reads nothing by itself."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sight:
    mtime_ns: int
    digest: str
    """SHA-256 of the bytes that were seen."""


def sight_of(path: Path, content: bytes) -> Sight:
    return Sight(path.stat().st_mtime_ns, hashlib.sha256(content).hexdigest())


@dataclass(slots=True)
class SeenFiles:
    """The files of one session that a tool has shown to the model or written for it."""

    sights: dict[Path, Sight] = field(default_factory=dict)

    def note(self, path: Path, content: bytes) -> None:
        """Remembers that the model knows this content of the file."""
        self.sights[path] = sight_of(path, content)

    def forget(self, path: Path) -> None:
        self.sights.pop(path, None)

    def knows(self, path: Path) -> bool:
        return path in self.sights

    def is_current(self, path: Path, content: bytes) -> bool:
        """Whether the file still holds what the model saw. A touched but unchanged file counts as current."""
        sight = self.sights.get(path)
        return sight is not None and sight.digest == hashlib.sha256(content).hexdigest()
