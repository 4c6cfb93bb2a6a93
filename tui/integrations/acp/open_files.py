"""Asks the editor to save open files before a call uses them, so that tools and commands see what the user sees."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from acp import Client, RequestError

from ebbtide.tools.files.change import comparable_content
from ebbtide.tools.files.text import decode_file, with_newline

MAX_SAVED_FILES = 20
"""Maximum number of files saved for one call."""
SAVE_TIMEOUT_S = 2.0
"""How long to wait for the editor to save a file, in seconds."""


class EditorFileSaver:
    """Makes the editor save its open files, for one session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.session_id = ""
        """The session id. Set once the session is open."""

    async def request_save(self, paths: Sequence[str]) -> None:
        """Ask the editor to save these files. Missing, binary and large files are skipped."""
        for path in paths[:MAX_SAVED_FILES]:
            try:
                async with asyncio.timeout(SAVE_TIMEOUT_S):
                    await self._request_file_save(path)
            except (RequestError, ConnectionError, TimeoutError, ValueError):
                continue  # the editor has not opened it or does not answer: use the file on disk

    async def _request_file_save(self, path: str) -> None:
        disk_content = await asyncio.to_thread(comparable_content, Path(path))
        if disk_content is None:
            return
        editor_text = (await self._client.read_text_file(self.session_id, path)).content
        unsaved_content = unsaved_text(disk_content, editor_text)
        if unsaved_content is not None:
            await self._client.write_text_file(self.session_id, path, unsaved_content)


def unsaved_text(disk_content: bytes, editor_text: str) -> str | None:
    """Get the text that the editor should save, with the file's line endings; None if it equals the file's content. A
    missing final line ending is ignored, because some editors omit it."""
    disk_file = decode_file(disk_content)
    text = with_newline(editor_text, "\n")
    if text.rstrip("\n") == disk_file.normalised_text.rstrip("\n"):
        return None
    text_with_end = text if text.endswith("\n") or not disk_file.normalised_text.endswith("\n") else text + "\n"
    return with_newline(text_with_end, disk_file.newline)
