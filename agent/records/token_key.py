"""The key that the numbers of tokens are made with (`agent/context/secret_tokens.py`): random, kept on this machine and
the same for all of its sessions. Without one, whoever is shown a token could try which password has its number."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.private_folder import make_private

KEY_FILE = "token-key"
KEY_SIZE = 32
"""Bytes, as many as BLAKE2s takes."""


def token_key(path: Path) -> bytes:
    """The key that is kept in a file, which is made where it is not there or holds none. Where it can be neither read
    nor made, another one in each run: then tokens of earlier runs stand for nothing."""
    if (kept := _stored_key(path)) is not None:
        return kept
    new = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    made = secrets.token_bytes(KEY_SIZE)
    try:
        make_private(path.parent)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(made)
        _install_key(new, path)
        return _stored_key(path) or made
    except OSError:
        return made
    finally:
        with suppress(OSError):
            new.unlink()


def _install_key(new: Path, path: Path) -> None:
    """In its place, unless another process has put its own key there a moment ago. Raises `OSError`."""
    try:
        os.link(new, path)
    except OSError:  # something is there, or the file system knows no second name for a file
        if _stored_key(path) is None:
            new.replace(path)


def _stored_key(path: Path) -> bytes | None:
    try:
        found = beginning_of(str(path), KEY_SIZE + 1)
    except OSError:
        return None
    return found if len(found) == KEY_SIZE else None
