"""What was written and not sent when a session was left, on disk, and what is not sent yet. Sessions are known by their
ids only."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import MAX_OWN_FILE_BYTES, beginning_of
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tui.prompt.pastes import MAX_UNFOLDED_CHARS, Pastes
from ebbtide.tui.session.queue import Queue


class Drafts:
    """Texts for each session. A folder that cannot be read or written costs the drafts, and nothing else."""

    def __init__(self, folder: Path | None) -> None:
        """Without a folder nothing is kept."""
        self._folder = folder
        self._kept: set[str] = set()
        """Sessions that have a file, as far as this run knows."""

    def save(self, session: str, texts: Sequence[str]) -> None:
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
            texts = json.loads(beginning_of(file, MAX_OWN_FILE_BYTES))
            file.unlink()
        except (OSError, ValueError):
            return ()
        return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()

    def has_draft(self, session: str) -> bool:
        """Whether something is kept for a session."""
        return self._folder is not None and self._file(self._folder, session).exists()

    def _file(self, folder: Path, session: str) -> Path:
        return folder / f"{session}.json"


class UnsentText:
    """What waits and what is being written in the session that is shown, kept for it until it is sent."""

    def __init__(self, drafts: Drafts, queue: Queue, pastes: Pastes, whose: Callable[[], str | None]) -> None:
        """`whose`: for which session; None where nothing is kept."""
        self._drafts, self._queue, self._pastes, self._whose = drafts, queue, pastes, whose
        self._written = ""
        """What is being written, as far as that was told."""
        queue.watch(lambda: self._save(queue.texts))

    def take(self, session: str) -> str:
        """What was kept when it was left; it is kept no longer."""
        draft = "\n\n".join(self._drafts.take(session))
        self._save(self._queue.texts)
        return self._pastes.fold(draft)

    def stash(self, draft: str) -> None:
        """Nothing is sent any more: what waits is kept, with what is being written."""
        texts = (*self._queue.texts, *([draft] if draft.strip() else []))
        self._written = ""
        self._queue.clear()
        self._save(texts)
        self._drafts = Drafts(None)

    def save_in_progress(self, draft: str) -> None:
        """What is being written is kept with what waits, should the program end without leaving the session; not what
        would take long to write down each time."""
        draft = draft if draft.strip() and len(self._pastes.unfold(draft)) <= MAX_UNFOLDED_CHARS else ""
        if draft != self._written:
            self._written = draft
            self._save(self._queue.texts)

    def _save(self, waiting: Sequence[str]) -> None:
        texts = (*waiting, *filter(None, [self._written]))
        if (session := self._whose()) is not None:
            self._drafts.save(session, [self._pastes.unfold(text) for text in texts])
