"""A size-limited log file for a server's stderr, readable only by its owner."""

import os
import re
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.secrets.key_formats import secret_encodings
from ebbtide.tools.secrets.redaction import REDACTION_MARK

MAX_LOG_BYTES = 4 * 1024**2
"""Maximum size of the file in bytes. One rotated file is kept next to it."""

_MAX_TAIL_BYTES = 2000
_REDACTION_MARK = REDACTION_MARK.encode()
_MIN_REDACTED_PREFIX_BYTES = 4
"""An incomplete secret at the end of the log is redacted if it has at least this many bytes."""


def read_last_lines(path: Path, max_lines: int) -> list[str]:
    """Read the last lines of a log; empty if the file does not exist. Raises `OSError`."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, max_lines)]
    except FileNotFoundError:
        return []


class ServerLog:
    """An append-only log that redacts secrets. Write errors are ignored."""

    def __init__(self, path: Path, secrets: Collection[str] = ()) -> None:
        """`secrets`: values to redact in every form that `secret_encodings` yields."""
        self._path = path
        forms = (form for secret in secrets for form in secret_encodings(secret))
        encoded_secrets = {form.encode("utf-8", "surrogateescape") for form in forms} - {b""}
        self._secrets = sorted(encoded_secrets, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._pending = b""
        """Data held back because it may be the beginning of a secret."""
        self._tail = b""
        self._descriptor: int | None = None
        self._size = 0
        with suppress(OSError):
            self._open()

    @property
    def last_line(self) -> str:
        """The last line that is not blank."""
        lines = self._tail.decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def write(self, data: bytes) -> None:
        """Write data, redacting secrets even if they arrive in several chunks."""
        self._write(self._redact_and_hold_back(self._pending + data) if self._secrets else data)

    def _redact_and_hold_back(self, data: bytes) -> bytes:
        """Redact the data. If it ends with what may be the beginning of a secret, that part is held back until more
        data arrives."""
        last_match_end = 0
        for match in self._pattern.finditer(data):
            if match.end() == len(data) and self._is_secret_prefix(match[0]):
                break
            last_match_end = match.end()
        max_pending = min(len(data) - last_match_end, len(self._secrets[0]) - 1)
        pending_size = next((size for size in range(max_pending, 0, -1) if self._is_secret_prefix(data[-size:])), 0)
        self._pending = data[len(data) - pending_size :]
        return self._pattern.sub(_REDACTION_MARK, data[: len(data) - pending_size])

    def _is_secret_prefix(self, data: bytes) -> bool:
        """Whether the data is the beginning of a secret, but not all of it."""
        return any(len(secret) > len(data) and secret.startswith(data) for secret in self._secrets)

    def _write(self, data: bytes) -> None:
        self._tail = (self._tail + data[-_MAX_TAIL_BYTES:])[-_MAX_TAIL_BYTES:]
        if self._descriptor is None:
            return
        try:
            if self._size + len(data) > MAX_LOG_BYTES:
                self._rotate()
            # If the system writes only part of a chunk, the rest is lost. That is acceptable for a log.
            self._size += os.write(self._descriptor, data[-MAX_LOG_BYTES:])
        except OSError:
            self._close()

    def close(self) -> None:
        pending, self._pending = self._pending, b""
        if pending:
            reveals_secret = len(pending) >= _MIN_REDACTED_PREFIX_BYTES or pending in self._secrets
            self._write(_REDACTION_MARK if reveals_secret else self._pattern.sub(_REDACTION_MARK, pending))
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _rotate(self) -> None:
        self._close()
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def _open(self) -> None:
        create_private_folder(self._path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
