"""The secret key from which the numbers of secret tokens are derived (`agent/prompt/secret_tokens.py`). It is random,
stored on this machine, and shared by all sessions. Anyone who knew the key could guess a password and check the guess
against the number in its token."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.bounded import read_prefix
from ebbtide.tools.files.private_folder import create_private_folder

KEY_FILE = "token-key"
KEY_BYTES = 32
"""Size of the key in bytes. BLAKE2s accepts no larger key."""


def load_or_create_token_key(path: Path) -> bytes:
    """Load the key, creating it if it is missing or invalid. If the file can be neither read nor created, return a new
    key for this run only. Tokens from earlier runs then cannot be resolved."""
    if (stored_key := _read_key(path)) is not None:
        return stored_key
    temporary_path = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    new_key = secrets.token_bytes(KEY_BYTES)
    try:
        create_private_folder(path.parent)
        with os.fdopen(
            os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(new_key)
        _install_key(temporary_path, path)
        return _read_key(path) or new_key
    except OSError:
        return new_key
    finally:
        with suppress(OSError):
            temporary_path.unlink()


def _install_key(temporary_path: Path, path: Path) -> None:
    """Move the new key into place, unless another process has just stored its own. Raises `OSError`."""
    try:
        os.link(temporary_path, path)
    except OSError:  # a file exists, or the file system has no hard links
        if _read_key(path) is None:
            temporary_path.replace(path)


def _read_key(path: Path) -> bytes | None:
    try:
        key = read_prefix(str(path), KEY_BYTES + 1)
    except OSError:
        return None
    return key if len(key) == KEY_BYTES else None
