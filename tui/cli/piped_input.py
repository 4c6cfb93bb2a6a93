"""Input piped into the program."""

import os
import select
import stat
import sys

from ebbtide.agent.errors import UsageError

_FIRST_BYTE_TIMEOUT_S = 2.0
"""Seconds to wait for the first byte of a pipe that may stay silent."""
_MAX_INLINE_CHARS = 8_000
"""Maximum characters that are put into the prompt itself."""
_MAX_PIPED_BYTES = 64 << 20
"""Maximum bytes of piped input."""


def has_piped_input() -> bool:
    """Whether stdin is a file, or a pipe with data soon."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    if stat.S_ISREG(mode):
        return True
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    return bool(select.select([sys.stdin], [], [], _FIRST_BYTE_TIMEOUT_S)[0])


def piped_input() -> str:
    """Read stdin and decode it in any encoding supported for files. Undecodable bytes become surrogate escapes.
    Raises `UsageError`."""
    data = sys.stdin.buffer.read(_MAX_PIPED_BYTES + 1)
    if len(data) > _MAX_PIPED_BYTES:
        most = f"more than {_MAX_PIPED_BYTES >> 20} MB was piped in"
        raise UsageError(f"{most}; save it to a file and name that in the prompt, so that parts of it can be read")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _in_other_encoding(data)


def _in_other_encoding(data: bytes) -> str:
    from ebbtide.agent.context.long_texts import is_noise  # noqa: PLC0415  # deferred: little is piped in so
    from ebbtide.tools.files.text import binary_kind, decode  # noqa: PLC0415  # deferred: as above, and a terminal needs none

    if binary_kind(data) is None and not is_noise(text := decode(data).text):
        return text
    return data.decode("utf-8", "surrogateescape")


def is_attachment(piped: str) -> bool:
    """Whether piped input becomes an attachment: it is long or not only text."""
    return len(piped) > _MAX_INLINE_CHARS or "\0" in piped or not _is_text(piped)


def take_terminal() -> bool:
    """Make the keyboard stdin again after a pipe or file; return whether there is a keyboard and whether there is a
    screen."""
    if not sys.stdout.isatty():
        return False
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    os.dup2(terminal, sys.stdin.fileno())
    os.close(terminal)
    return True


def _is_text(piped: str) -> bool:
    try:
        piped.encode()
    except UnicodeEncodeError:
        return False
    return True
