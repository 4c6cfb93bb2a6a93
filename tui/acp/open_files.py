"""Files that the editor has open and has not saved: it is asked to save them before a call looks at them, so that the
disk, which tools and commands work on, is what its user sees."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from acp import Client, RequestError

from ebbtide.tools.files.change import look_content
from ebbtide.tools.files.text import decode, with_newline

MAX_SAVED_FILES = 20
"""Files of one call."""
SAVE_TIMEOUT_S = 2.0
"""An editor that takes longer to answer is not waited for."""


class OpenFiles:
    """Those of one session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.session = ""
        """Its id, once it has one."""

    async def save(self, paths: Sequence[str]) -> None:
        """Files that are not on the disk, are no text or are large are left alone."""
        for path in paths[:MAX_SAVED_FILES]:
            try:
                async with asyncio.timeout(SAVE_TIMEOUT_S):
                    await self._save(path)
            except (RequestError, ConnectionError, TimeoutError, ValueError):
                continue  # the editor does not have it, or does not say: the disk holds

    async def _save(self, path: str) -> None:
        before = await asyncio.to_thread(look_content, Path(path))
        if before is None:
            return
        held = (await self._client.read_text_file(self.session, path)).content
        unsaved = unsaved_text(before, held)
        if unsaved is not None:
            await self._client.write_text_file(self.session, path, unsaved)


def unsaved_text(on_disk: bytes, held: str) -> str | None:
    """What an editor should save, with the line ends of the file; None where it holds what is on the disk. Some leave
    out the last line end of what they hold."""
    file = decode(on_disk)
    text = with_newline(held, "\n")
    if text.rstrip("\n") == file.normalised_text.rstrip("\n"):
        return None
    ended = text if text.endswith("\n") or not file.normalised_text.endswith("\n") else text + "\n"
    return with_newline(ended, file.newline)
