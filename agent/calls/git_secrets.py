"""Finds passwords in git's settings, so that they are hidden from models like those in the environment."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from weakref import WeakKeyDictionary

from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.tools import sandbox
from ebbtide.tools import secrets as tools_secrets

_MAX_SETTINGS_BYTES = 1 << 20
_SECRET_HINTS = (b"://", b"uthorization", b"oken", b"assword", b"ecret", b"_", b"-", b"AKIA", b"AIza", b"eyJ")
"""Every secret in git's settings contains or follows at least one of these strings. Most files contain none of them and
are not parsed."""
_FileStates = tuple[tuple[int, int], ...]
_last_checks: WeakKeyDictionary[SecretTokens, tuple[Sequence[Path], _FileStates]] = WeakKeyDictionary()
"""For each session's secrets, the files examined last and their states at that time. Before each call, only the states
are compared."""


async def add_git_passwords(secrets: SecretTokens, folder: Path) -> None:
    """Add passwords in git's settings, such as those in remote URLs, to `secrets`."""
    paths, states = _last_checks.get(secrets, ((), ()))
    if paths and _file_states(paths) == states:
        return
    paths, states, passwords = await asyncio.to_thread(_read_settings, folder)
    secrets.learn_new(passwords)
    _last_checks[secrets] = paths, states


def _read_settings(folder: Path) -> tuple[Sequence[Path], _FileStates, Mapping[str, str]]:
    paths = [
        *(ancestor / ".git" for ancestor in (folder, *folder.parents)),
        *sandbox.git_metadata.settings_file_paths(folder),
    ]
    states = _file_states(paths)  # taken before reading, so that a change during the reading is noticed
    passwords = dict[str, str]()
    for path, (modified_ns, size) in zip(paths, states, strict=True):
        try:
            if modified_ns and path.is_file():
                passwords |= _read_passwords(path, modified_ns, size)
        except OSError:  # deleted or unreadable, so that no tool can show its content either
            continue
    return paths, states, passwords


def _file_states(paths: Sequence[Path]) -> _FileStates:
    """Return the modification time and size of each file; zeros if it is missing."""
    return tuple(map(_file_state, paths))


def _file_state(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def _read_passwords(path: Path, _: int, size: int) -> Mapping[str, str]:
    """Return the passwords in a file, by name; cached until the file changes."""
    content = path.read_bytes() if size <= _MAX_SETTINGS_BYTES else b""
    if not any(hint in content for hint in _SECRET_HINTS):
        return {}
    return tools_secrets.git_passwords.find_git_passwords(content.decode("utf-8", "surrogateescape"))
