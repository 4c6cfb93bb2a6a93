"""Hides passwords in git's settings from models, like those in the environment."""

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ebbtide.agent.context.secret_tokens import SecretTokens

_MAX_BYTES = 1 << 20


async def learn_git_passwords(secrets: SecretTokens, folder: Path) -> None:
    """Treat passwords in the URLs of remotes as secrets from now on."""
    secrets.learn_new(await asyncio.to_thread(_passwords_of, folder))


def _passwords_of(folder: Path) -> Mapping[str, str]:
    from ebbtide.tools.sandbox.git_metadata import files_of_settings  # noqa: PLC0415  # deferred: some sessions call no tool

    found = dict[str, str]()
    for path in files_of_settings(folder):
        try:
            state = path.stat()
            found |= _passwords_in(path, state.st_mtime_ns, state.st_size)
        except OSError:  # deleted or unreadable: then its content is not shown anywhere
            continue
    return found


@lru_cache(maxsize=256)
def _passwords_in(path: Path, _: int, size: int) -> Mapping[str, str]:
    """Cached until the file changes."""
    from ebbtide.tools.secrets.git_passwords import git_passwords  # noqa: PLC0415  # deferred: as above

    return git_passwords(path.read_text("utf-8", "surrogateescape")) if size <= _MAX_BYTES else {}
