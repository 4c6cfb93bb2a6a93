"""A log file for a server's error output, readable only by its owner and limited in size."""

import os
import re
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.secrets.key_formats import forms_of
from ebbtide.tools.secrets.redaction import REDACTION_MARK

MAX_LOG_BYTES = 4 * 1024**2
"""Maximum size of the file, in bytes. One rotated file is kept beside it."""

_MAX_TAIL_BYTES = 2000
_REDACTION_MARK = REDACTION_MARK.encode()
_TELLING = 4
"""Number of bytes from which an incomplete secret is redacted."""


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, or none if the file does not exist. Raises `OSError`."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except FileNotFoundError:
        return []


class ServerLog:
    """An append-only log with redaction. Write errors are ignored."""

    def __init__(self, path: Path, secrets: Collection[str] = ()) -> None:
        """`secrets`: values to redact, in any encoding of `forms_of`."""
        self._path = path
        forms = (form for secret in secrets for form in forms_of(secret))
        hidden = {form.encode("utf-8", "surrogateescape") for form in forms} - {b""}
        self._secrets = sorted(hidden, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._held = b""
        """Data that may be the beginning of a secret, held back until more arrives."""
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
        """Write data, redacting secrets even if they arrive in several pieces."""
        self._write(self._without_secrets(self._held + data) if self._secrets else data)

    def _without_secrets(self, data: bytes) -> bytes:
        """Return the redacted data, holding back a possible beginning of a secret at its end."""
        ends = 0
        for match in self._pattern.finditer(data):
            if match.end() == len(data) and self._begins(match[0]):
                break
            ends = match.end()
        longest = min(len(data) - ends, len(self._secrets[0]) - 1)
        held = next((size for size in range(longest, 0, -1) if self._begins(data[-size:])), 0)
        self._held = data[len(data) - held :]
        return self._pattern.sub(_REDACTION_MARK, data[: len(data) - held])

    def _begins(self, data: bytes) -> bool:
        """Whether the data is a proper prefix of a secret."""
        return any(len(secret) > len(data) and secret.startswith(data) for secret in self._secrets)

    def _write(self, data: bytes) -> None:
        self._tail = (self._tail + data[-_MAX_TAIL_BYTES:])[-_MAX_TAIL_BYTES:]
        if self._descriptor is None:
            return
        try:
            if self._size + len(data) > MAX_LOG_BYTES:
                self._turn_over()
            # If the system writes only part of a chunk, the rest of it is lost. That is acceptable for a log.
            self._size += os.write(self._descriptor, data[-MAX_LOG_BYTES:])
        except OSError:
            self._close()

    def close(self) -> None:
        held, self._held = self._held, b""
        if held:
            is_telling = len(held) >= _TELLING or held in self._secrets
            self._write(_REDACTION_MARK if is_telling else self._pattern.sub(_REDACTION_MARK, held))
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _turn_over(self) -> None:
        self._close()
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._open()

    def _open(self) -> None:
        make_private(self._path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
