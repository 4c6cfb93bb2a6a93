"""Edits a file in the user's editor."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.tools.files.bounded import beginning_of

_MAX_FILE_BYTES = 4_000_000
"""Maximum bytes of an edited file."""


async def edit_file(path: Path, edited: Callable[[str], Awaitable[str]]) -> str:
    """Edit a file and return the result in a sentence. `edited`: runs the editor on a text. Concurrent changes on
    disk are kept. Raises `UsageError`."""
    try:
        before = _content_of(path)
        text = before.decode("utf-8", "surrogateescape")
        changed = (await edited(text)).encode("utf-8", "surrogateescape")
        if changed == before:
            return f"`{path}` stays as it was"
        _write(path, before, changed)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be edited: {error.strerror or error}") from error
    return f"`{path}` is changed: the model is told with your next message, as far as it was told of the file"


def _write(path: Path, before: bytes, changed: bytes) -> None:
    """Write in place, to keep hard and symbolic links."""
    with open(path, "r+b") as file:
        if file.read(_MAX_FILE_BYTES + 1) != before:
            raise UsageError(f"`{path}` was changed by somebody else meanwhile, so nothing was written")
        file.seek(0)
        file.write(changed)
        file.truncate(len(changed))


def _content_of(path: Path) -> bytes:
    content = beginning_of(path, _MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise UsageError(f"`{path}` is too long to be edited here")
    return content
