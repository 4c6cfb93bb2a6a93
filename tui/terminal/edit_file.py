"""A file in the user's own editor."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from ebbtide.agent.errors import UsageError
from ebbtide.tools.files.bounded import beginning_of

_MAX_FILE_BYTES = 4_000_000
"""Bytes of a file that is opened so."""


async def edit_file(path: Path, edited: Callable[[str], Awaitable[str]]) -> str:
    """What became of the file, in a sentence. `edited`: what the user makes of its text. What somebody else has written
    meanwhile stays. Raises `UsageError`."""
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
    """In place, so that links and other names of the file stay."""
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
