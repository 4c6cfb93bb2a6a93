"""Sanitises text from servers for display. The text is treated as data."""

import re

from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import printable_name, terminal_text

MAX_LINE_CHARS = 300

_HIDDEN_CHARS = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Invisible characters, which can hide text from readers."""
_CONTROL_CHARS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean_text(text: str) -> str:
    """Remove control sequences and hidden characters."""
    return _HIDDEN_CHARS.sub("", terminal_text(text)).strip()


def without_control_codes(text: str) -> str:
    """Remove control sequences from a tool's output. A carriage return ends a line here, because no terminal has
    displayed the text. Text without control characters is not copied."""
    return terminal_text(text.replace("\r\n", "\n").replace("\r", "\n")) if _CONTROL_CHARS.search(text) else text


def has_hidden_chars(text: str) -> bool:
    """Whether the text contains anything that `clean_text` removes."""
    return bool(_HIDDEN_CHARS.search(text)) or terminal_text(text) != text.replace("\r\n", "\n")


def with_escaped_chars(text: str) -> str:
    """Escape control and hidden characters. Used for values that must not be altered silently."""
    return _HIDDEN_CHARS.sub(_escape_char, _CONTROL_CHARS.sub(_escape_char, text))


def _escape_char(match: re.Match[str]) -> str:
    return f"\\u{{{ord(match[0]):x}}}"


def one_line(text: str, max_chars: int = MAX_LINE_CHARS) -> str:
    """Sanitise text, put it on one line and truncate it."""
    return ellipsize(printable_name(" ".join(clean_text(text[: 10 * max_chars]).split())), max_chars)


def error_text(error: BaseException) -> str:
    """Format an error in one line. For nested exception groups, use the first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"`{printable_name(str(error.filename))}`: {error.strerror}"
    return one_line(str(error)) or type(error).__name__
