"""Passwords that the settings of Git hold, hidden from models as those of the environment are."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ebbtide.agent.context.secret_tokens import SecretTokens

_MAX_BYTES = 1 << 20


async def learn_git_passwords(secrets: SecretTokens, folder: Path) -> None:
    """From now on what stands as a password in an address of a remote is a secret, wherever it is shown."""
    secrets.learn_new(await asyncio.to_thread(_passwords_of, folder))


def _passwords_of(folder: Path) -> Mapping[str, str]:
    from ebbtide.tools.sandbox.git_metadata import files_of_settings  # noqa: PLC0415  # deferred: some sessions call no tool

    found = dict[str, str]()
    for path in files_of_settings(folder):
        try:
            state = path.stat()
            found |= _passwords_in(path, state.st_mtime_ns, state.st_size)
        except OSError:  # it is gone, or cannot be read: then nothing of it is shown
            continue
    return found


@lru_cache(maxsize=256)
def _passwords_in(path: Path, _: int, size: int) -> Mapping[str, str]:
    """Read again when the file has changed."""
    from ebbtide.tools.secrets.git_passwords import git_passwords  # noqa: PLC0415  # deferred: as above

    return git_passwords(path.read_text("utf-8", "surrogateescape")) if size <= _MAX_BYTES else {}
