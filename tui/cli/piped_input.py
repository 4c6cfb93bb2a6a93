"""Input piped into the program."""

import os
import select
import stat
import sys

from ebbtide.agent import providers, view
from ebbtide.agent.errors import UsageError
from ebbtide.tools import files

_FIRST_BYTE_TIMEOUT_S = 2.0
"""Seconds to wait for the first byte from a pipe that may stay silent."""
_MAX_INLINE_CHARS = 8_000
"""Maximum length, in characters, of piped input that is put into the prompt itself."""
_MAX_PIPED_BYTES = 64 << 20
"""Maximum size of piped input in bytes."""


def has_piped_input() -> bool:
    """Whether stdin is a file, or a pipe that soon delivers data."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    if stat.S_ISREG(mode):
        return True
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    return bool(select.select([sys.stdin], [], [], _FIRST_BYTE_TIMEOUT_S)[0])


def read_piped_input() -> str:
    """Read stdin, decoding any encoding that is supported for files. Undecodable bytes become surrogate escapes. Raises
    `UsageError`."""
    data = sys.stdin.buffer.read(_MAX_PIPED_BYTES + 1)
    if len(data) > _MAX_PIPED_BYTES:
        problem = f"more than {_MAX_PIPED_BYTES >> 20} MB piped in"
        raise UsageError(f"{problem}; save it to a file and name the file in the prompt")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_non_utf8(data)


def _decode_non_utf8(data: bytes) -> str:
    if files.text.binary_kind(data) is None and not view.long_texts.is_binary_text(
        text := files.text.decode_file(data).text
    ):
        return text
    return data.decode("utf-8", "surrogateescape")


def needs_attachment(text: str) -> bool:
    """Whether piped input must become an attachment because it is long or not plain text."""
    return len(text) > _MAX_INLINE_CHARS or "\0" in text or not providers.loose_json.is_encodable(text)


def reattach_terminal() -> bool:
    """Make stdin the terminal again after reading a pipe or file. Returns False if there is no terminal or stdout is
    not one."""
    if not sys.stdout.isatty():
        return False
    try:
        terminal_descriptor = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    os.dup2(terminal_descriptor, sys.stdin.fileno())
    os.close(terminal_descriptor)
    return True
