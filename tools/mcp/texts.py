"""Texts that servers wrote, made safe to show. They are data, whatever they say."""

import re

from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import plain, printable

MAX_LINE_CHARS = 300

_HIDDEN_CHARS = re.compile(
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters without a glyph, with which texts are hidden from whoever reads them."""
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """The text without anything that steers a terminal or hides from the reader."""
    return _HIDDEN_CHARS.sub("", plain(text)).strip()


def without_codes(text: str) -> str:
    """What a tool gave back, without anything that steers a terminal. No terminal has drawn it, so that a carriage
    return ends a line and takes nothing back. A text that holds nothing of the kind is not copied."""
    return plain(text.replace("\r\n", "\n").replace("\r", "\n")) if _CODES.search(text) else text


def hides(text: str) -> bool:
    """Whether there is anything that `clean` leaves out."""
    return bool(_HIDDEN_CHARS.search(text)) or plain(text) != text.replace("\r\n", "\n")


def spelled_out(text: str) -> str:
    """The text with codes in the place of what steers a terminal or hides from the reader: for values that have to stay
    what they are."""
    return _HIDDEN_CHARS.sub(_code, _CODES.sub(_code, text))


def _code(found: re.Match[str]) -> str:
    return f"\\u{{{ord(found[0]):x}}}"


def one_line(text: str, most: int = MAX_LINE_CHARS) -> str:
    """The text on one line, cleaned, and not long."""
    return ellipsize(printable(" ".join(clean(text[: 10 * most]).split())), most)


def error_text(error: BaseException) -> str:
    """What went wrong, on one line: the first of several errors, whatever they are wrapped in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"`{printable(str(error.filename))}`: {error.strerror}"
    return one_line(str(error)) or type(error).__name__
