"""Text that is safe to draw."""

import re

from tools.lazy import regex

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSAFE = regex(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but newline and tab, and DEL
    "\x80-\x9f"  # C1
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # soft hyphen, joiners and fillers without a glyph
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, overrides and isolates
    "\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff"  # zero width and invisible operators
    "\u2028\u2029\ufff9-\ufffb"  # line and paragraph separators, annotations
    "\ufe00-\ufe0f"  # variation selectors, but see `_picture`
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # what joins signs of scripts and of music
    "\ud800-\udfff"  # lone surrogates: they cannot be written to a terminal at all
    "\U000e0000-\U000e0fff"  # tag characters and the variation selectors behind them
    "]"
)
_SYMBOL = regex("[©®‼-㊙\U0001f000-\U0001faff]")
"""What may be followed by a sign that asks for its picture, or for its plain form."""


def visible(text: str) -> str:
    """The text with every character that could steer the terminal or hide from the reader replaced by a visible one."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _UNSAFE.sub(_picture, text) if _UNSAFE.search(text) else text


def visible_line(text: str) -> str:
    """`visible` text on one line, for titles and lists."""
    return visible(" ".join(text.split("\n"))).replace("\t", " ")


def _picture(found: re.Match[str]) -> str:
    """The control picture of a C0 character or DEL; for everything else the replacement character. What says how the
    symbol before it looks stays: it hides nothing."""
    code = ord(found.group())
    if code in (0xFE0E, 0xFE0F) and (_SYMBOL.match(found.string, max(0, found.start() - 1)) or _is_key(found)):
        return found.group()
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else _REPLACEMENT


def _is_key(found: re.Match[str]) -> bool:
    """Whether it stands in the picture of a key, such as that of 1."""
    return found.string[found.end() : found.end() + 1] == "\N{COMBINING ENCLOSING KEYCAP}"
