"""What a login gave, in a file that only its owner can read. It knows JSON, not what is in it, and loads no SDK."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any


class Vault:
    """The file of one server. What is kept for another address is not given out."""

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._url = url

    def read(self) -> Mapping[str, Any]:
        """What is kept; nothing, when there is none or it cannot be read."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return kept if isinstance(kept, dict) and kept.get("url") == self._url else {}

    def write(self, **values: object) -> None:
        """Keeps these values besides the others. Raises `OSError`."""
        kept = {**self.read(), "url": self._url, **values}
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with suppress(FileNotFoundError):
                new.unlink()
            with os.fdopen(os.open(new, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(kept, file)
            new.replace(self._path)
        finally:
            with suppress(FileNotFoundError):
                new.unlink()
