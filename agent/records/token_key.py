"""The key used to number secret tokens (`agent/context/secret_tokens.py`): random, stored on this machine and shared
by all of its sessions. Without it, a reader of a token could guess passwords by comparing their numbers."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import beginning_of
from ebbtide.tools.files.private_folder import make_private

KEY_FILE = "token-key"
KEY_SIZE = 32
"""In bytes; the largest key that BLAKE2s accepts."""


def token_key(path: Path) -> bytes:
    """Return the key stored in a file, creating it if it is missing or invalid. If the file can be neither read nor
    created, return a new key for this run: tokens of earlier runs then have no meaning."""
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
    """Move the new key into place, unless another process has just stored its own. Raises `OSError`."""
    try:
        os.link(new, path)
    except OSError:  # a file exists, or the file system has no hard links
        if _stored_key(path) is None:
            new.replace(path)


def _stored_key(path: Path) -> bytes | None:
    try:
        found = beginning_of(str(path), KEY_SIZE + 1)
    except OSError:
        return None
    return found if len(found) == KEY_SIZE else None
