"""Writes a private file that appears only once it is complete."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ebbtide.agent.errors import UsageError


@contextmanager
def atomic_file(path: Path, *, should_replace: bool, alternative: str = "") -> Iterator[IO[bytes]]:
    """Open a private file for writing. It appears at `path` only once it is complete. `should_replace`: replace an
    existing file. Otherwise, an existing file is an error, and the message ends with `alternative`. Raises
    `UsageError`."""
    temporary_path = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    has_placeholder = False
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"`{path}` is not a file: choose another name")
        if not should_replace:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            has_placeholder = True
        descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary_path, path)
        has_placeholder = False
    except FileExistsError as error:
        raise UsageError(f"`{path}` already exists: choose another name{alternative}") from error
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary_path.unlink(missing_ok=True)
        if has_placeholder:
            with suppress(OSError):
                path.unlink(missing_ok=True)
