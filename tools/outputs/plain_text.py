"""Normalises and shortens raw output."""

import re
from collections.abc import Sequence

from ebbtide.tools.lazy import regex

MAX_LINE_CHARS = 2000
"""Maximum number of characters shown per line."""

_ESCAPE = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movements
    r"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC, up to their end or the end of line
    r"|[ -/]*[0-~])?"  # two-character and charset escapes
)
_OVERSTRUCK = regex(r"[^\n]\x08")
_CONTROL = regex(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNFINISHED_ESCAPE = regex(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]{0,200}\x1b?|[ -/]*)?\Z")
_UNPRINTABLE = regex(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def terminal_text(text: str) -> str:
    """Return the text as a terminal would show it: without escape sequences or control characters, and with redrawn
    lines in their last state."""
    text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(_last_drawn(line) for line in text.split("\n"))
    return _CONTROL.sub("", text)


def _last_drawn(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]


def split_unfinished_escape(text: str) -> tuple[str, str]:
    """Split off an incomplete escape sequence at the end of the text."""
    unfinished = _UNFINISHED_ESCAPE.search(text)
    return (text, "") if unfinished is None else (text[: unfinished.start()], unfinished[0])


def is_mostly_binary(decoded: str) -> bool:
    """Whether more than a tenth of the characters are undecodable or control characters, as in a binary file."""
    noise = decoded.count("\ufffd") + len(re.findall(r"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f-\x9f]", decoded))
    return noise * 10 > len(decoded)


def truncate_line(line: str, max_chars: int) -> str:
    """Cut a line after `max_chars` characters, and add a note about its length."""
    return line if len(line) <= max_chars else f"{line[:max_chars]}… [cut: {len(line)} characters]"


def number_lines(lines: Sequence[str], first_number: int, max_line_chars: int = MAX_LINE_CHARS) -> str:
    """Number the lines and cut long ones. The separator is a tab, which costs one token. An arrow would cost two or
    three tokens, and alignment with spaces one more."""
    return "\n".join(
        f"{number}\t{truncate_line(line, max_line_chars)}" for number, line in enumerate(lines, start=first_number)
    )


def printable_name(name: str) -> str:
    """Return a file name on a single line, with control characters and undecodable bytes escaped."""
    return _UNPRINTABLE.sub(_escape_char, name)


def _escape_char(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(match[0])[1:-1]


def lossless_text(data: bytes) -> str | None:
    """Decode the output without its final newline. None if text cannot represent every byte."""
    text = data.decode("utf-8", "replace")
    readable = terminal_text(text).removesuffix("\n")
    is_lossless = data in (readable.encode(), f"{readable}\n".encode())
    return readable if is_lossless and not is_mostly_binary(text) else None


def common_prefix_length(first: Sequence[str], second: Sequence[str]) -> int:
    pairs = enumerate(zip(first, second, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(first), len(second)))
