"""What was written and not sent when a session was left, on disk. It knows sessions by their ids only."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.files.bounded import LARGEST, beginning_of
from tools.files.private_folder import make_private


class Drafts:
    """Texts for each session. A folder that cannot be read or written costs the drafts, and nothing else."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder nothing is kept."""
        self._folder = folder
        self._kept: set[str] = set()
        """Sessions that have a file, as far as this run knows."""

    def keep(self, session: str, texts: Sequence[str]) -> None:
        """The texts are on disk when this returns, in the place of those before."""
        if self._folder is None or not (texts or session in self._kept):
            return
        file = self._file(self._folder, session)
        with suppress(OSError):
            if not texts:
                file.unlink(missing_ok=True)
                self._kept.discard(session)
                return
            self._kept.add(session)
            make_private(self._folder)
            written = file.with_suffix(".new")
            with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
                json.dump(list(texts), stream)
            os.replace(written, file)

    def take(self, session: str) -> tuple[str, ...]:
        """What was kept for a session, which is kept no longer."""
        if self._folder is None:
            return ()
        file = self._file(self._folder, session)
        try:
            texts = json.loads(beginning_of(file, LARGEST))
            file.unlink()
        except (OSError, ValueError):
            return ()
        return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()

    def holds(self, session: str) -> bool:
        """Whether something is kept for a session."""
        return self._folder is not None and self._file(self._folder, session).exists()

    def _file(self, folder: Path, session: str) -> Path:
        return folder / f"{session}.json"
