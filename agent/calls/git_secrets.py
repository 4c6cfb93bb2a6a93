"""Hides passwords in git's settings from models, like those in the environment."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from ebbtide.agent.context.secret_tokens import SecretTokens

_MAX_BYTES = 1 << 20
_HINTS = (b"://", b"uthorization", b"oken", b"assword", b"ecret", b"_", b"-", b"AKIA", b"AIza", b"eyJ")
"""Without any of these, settings hold no secret: most files are read no further."""
_States = tuple[tuple[int, int], ...]
_last_looks: WeakKeyDictionary[SecretTokens, tuple[Sequence[Path], _States]] = WeakKeyDictionary()
"""The files that were looked at last, and their states then: before each call only these are compared."""


async def learn_git_passwords(secrets: SecretTokens, folder: Path) -> None:
    """Treat passwords in the URLs of remotes as secrets from now on."""
    paths, states = _last_looks.get(secrets, ((), ()))
    if paths and _states_of(paths) == states:
        return
    paths, states, found = await asyncio.to_thread(_look, folder)
    secrets.learn_new(found)
    _last_looks[secrets] = paths, states


def _look(folder: Path) -> tuple[Sequence[Path], _States, Mapping[str, str]]:
    from ebbtide.tools.sandbox.git_metadata import settings_paths  # noqa: PLC0415  # deferred: some sessions call no tool

    paths = [*(each / ".git" for each in (folder, *folder.parents)), *settings_paths(folder)]
    states = _states_of(paths)  # before they are read: what changes meanwhile is looked at again
    found = dict[str, str]()
    for path, (changed, size) in zip(paths, states, strict=True):
        try:
            if changed and path.is_file():
                found |= _passwords_in(path, changed, size)
        except OSError:  # deleted or unreadable: then its content is not shown anywhere
            continue
    return paths, states, found


def _states_of(paths: Sequence[Path]) -> _States:
    """Time of change and size of each file; zeros if it is missing."""
    return tuple(map(_state_of, paths))


def _state_of(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=256)
def _passwords_in(path: Path, _: int, size: int) -> Mapping[str, str]:
    """Cached until the file changes."""
    content = path.read_bytes() if size <= _MAX_BYTES else b""
    if not any(hint in content for hint in _HINTS):
        return {}
    from ebbtide.tools.secrets.git_passwords import git_passwords  # noqa: PLC0415  # deferred: few settings have secrets

    return git_passwords(content.decode("utf-8", "surrogateescape"))
