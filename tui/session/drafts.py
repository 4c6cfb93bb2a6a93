"""Sessions' unsent text, saved on disk by session id."""

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import MAX_PROGRAM_FILE_BYTES, read_prefix
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tui.prompt.pastes import MAX_EXPANDED_CHARS, Pastes
from ebbtide.tui.session.queue import MessageQueue


class Drafts:
    """Saves text by session id. If the folder cannot be used, drafts are lost without an error."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: None saves nothing."""
        self._folder = folder
        self._saved_sessions: set[str] = set()
        """Sessions for which this process has written a file."""

    def save(self, session_id: str, texts: Sequence[str]) -> None:
        """Save texts to disk, replacing any saved earlier."""
        if self._folder is None or not (texts or session_id in self._saved_sessions):
            return
        file = self._draft_path(self._folder, session_id)
        with suppress(OSError):
            if not texts:
                file.unlink(missing_ok=True)
                self._saved_sessions.discard(session_id)
                return
            self._saved_sessions.add(session_id)
            create_private_folder(self._folder)
            new_file = file.with_suffix(".new")
            with open(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
                json.dump(list(texts), stream)
            os.replace(new_file, file)

    def take(self, session_id: str) -> tuple[str, ...]:
        """Return a session's saved texts and delete them."""
        if self._folder is None:
            return ()
        file = self._draft_path(self._folder, session_id)
        try:
            texts = json.loads(read_prefix(file, MAX_PROGRAM_FILE_BYTES))
            file.unlink()
        except (OSError, ValueError):
            return ()
        return tuple(text for text in texts if isinstance(text, str)) if isinstance(texts, list) else ()

    def has_draft(self, session_id: str) -> bool:
        """Whether a session has a draft."""
        return self._folder is not None and self._draft_path(self._folder, session_id).exists()

    def _draft_path(self, folder: Path, session_id: str) -> Path:
        return folder / f"{session_id}.json"


class UnsentText:
    """The current session's queued messages and prompt text, saved until they are sent."""

    def __init__(
        self, drafts: Drafts, queue: MessageQueue, pastes: Pastes, get_session_id: Callable[[], str | None]
    ) -> None:
        """`get_session_id` returns the id of the session to save text for, or None."""
        self._drafts = drafts
        self._queue = queue
        self._pastes = pastes
        self._get_session_id = get_session_id
        self._prompt_text = ""
        """The prompt's text when it was last reported."""
        queue.add_change_callback(lambda: self._save(queue.texts))

    def take(self, session_id: str) -> str:
        """Return the text that was saved on leaving the session, and delete the saved copy."""
        draft = "\n\n".join(self._drafts.take(session_id))
        self._save(self._queue.texts)
        return self._pastes.collapse(draft)

    def stash(self, draft: str) -> None:
        """Save the queue and the prompt's text because the session is being left."""
        texts = (*self._queue.texts, *([draft] if draft.strip() else []))
        self._prompt_text = ""
        self._queue.clear()
        self._save(texts)
        self._drafts = Drafts(None)

    def save_in_progress(self, draft: str) -> None:
        """Save the prompt's text and the queue in case the program is killed. Long text is not saved, because saving it
        repeatedly is slow."""
        draft = draft if draft.strip() and len(self._pastes.expand(draft)) <= MAX_EXPANDED_CHARS else ""
        if draft != self._prompt_text:
            self._prompt_text = draft
            self._save(self._queue.texts)

    def _save(self, queued_texts: Sequence[str]) -> None:
        texts = (*queued_texts, *filter(None, [self._prompt_text]))
        if (session_id := self._get_session_id()) is not None:
            self._drafts.save(session_id, [self._pastes.expand(text) for text in texts])
