"""Text that is safe to draw."""

import re

from tools.lazy import regex

_JOINER = 0x200D
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
_JOINED = "[↔↕☀-➿⬛⬜\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
_BEFORE_JOINER = regex(f"{_JOINED}[\ufe0f\U0001f3fb-\U0001f3ff]?$")
_AFTER_JOINER = regex(_JOINED)
_UNDECIDED = regex("(?:\r|\u200d|(?<=[0-9#*])\ufe0f)$")
_REACH = 2
"""Characters before a sign by which it is told whether it belongs to them."""


def visible(text: str, before: str = "") -> str:
    """The text with every character that could steer the terminal or hide from the reader replaced by a visible one.
    Signs inside of an emoji stay. `before`: what stands in front of it, where a text comes in pieces."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if not _UNSAFE.search(text):
        return text
    before = before[-_REACH:]
    return _UNSAFE.sub(_picture, before + text)[len(before) :]


def decided(text: str) -> str:
    """The text up to where what follows may say what its last character is."""
    return text[:-1] if _UNDECIDED.search(text, max(0, len(text) - _REACH)) else text


def visible_line(text: str) -> str:
    """`visible` text on one line, for titles and lists."""
    return visible(" ".join(text.split("\n"))).replace("\t", " ")


def _picture(found: re.Match[str]) -> str:
    """The control picture of a C0 character or DEL; for everything else the replacement character. What says how the
    symbol before it looks stays: it hides nothing."""
    code = ord(found.group())
    if code in (0xFE0E, 0xFE0F) and (_SYMBOL.match(found.string, max(0, found.start() - 1)) or _is_key(found)):
        return found.group()
    if code == _JOINER and _joins(found):
        return found.group()
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else _REPLACEMENT


def _joins(found: re.Match[str]) -> bool:
    """Whether it makes one emoji of two."""
    text, start, end = found.string, found.start(), found.end()
    return bool(_AFTER_JOINER.match(text, end) and _BEFORE_JOINER.search(text, max(0, start - _REACH), start))


def _is_key(found: re.Match[str]) -> bool:
    """Whether it stands in the picture of a key, such as that of 1."""
    return found.string[found.end() : found.end() + 1] == "\N{COMBINING ENCLOSING KEYCAP}"
