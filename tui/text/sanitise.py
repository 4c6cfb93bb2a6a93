"""Makes text safe to draw."""

import re

from ebbtide.tools.lazy import regex

_JOINER, _NON_JOINER = 0x200D, 0x200C
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSAFE = regex(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 but newline and tab, and DEL
    "\x80-\x9f"  # C1
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # soft hyphen, joiners and fillers without a glyph
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, overrides and isolates
    "\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff"  # zero width and invisible operators
    "\u2028\u2029\ufff0-\ufffb"  # line and paragraph separators, annotations
    "\ufe00-\ufe0f"  # variation selectors, but see `_picture`
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # what joins signs of scripts and of music
    "\ud800-\udfff"  # lone surrogates: they cannot be written to a terminal at all
    "\U000e0000-\U000e0fff"  # tag characters and the variation selectors behind them
    "]"
)
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\n\t"})
_SYMBOL = regex("[©®‼-㊙\U0001f000-\U0001faff]")
"""Symbols that a variation selector may follow."""
_EMOJI = "[↔↕☀-➿⬛⬜\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
_BEFORE_JOINER = regex(f"{_EMOJI}[\ufe0f\U0001f3fb-\U0001f3ff]?$")
_AFTER_JOINER = regex(_EMOJI)
_SPELT = (
    "[\u0620-\u06d3\u06d5-\u06dc\u06df-\u070d\u0710-\u088f\u0897-\u08e1\u08e3-\u0dff"
    "\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3]"
)
"""Letters of scripts whose spelling needs joiners: Arabic and related, Indic, Burmese, Khmer."""
_IN_WORD = regex(f"(?<={_SPELT})[\u200c\u200d](?={_SPELT})")
_UNDECIDED_END = regex("(?:\r|\u200c|\u200d|(?<=[0-9#*])\ufe0f)\\Z")
_LOOKBEHIND_CHARS = 2
"""Characters before a joiner needed to tell whether it is legitimate."""


def sanitised(text: str, before: str = "") -> str:
    """Replace every control or invisible character by a visible one. Joiners inside emoji and words that need them
    are kept. `before`: the preceding text, if it comes in pieces."""
    return with_control_pictures(text.replace("\r\n", "\n") if "\r" in text else text, before)


def with_control_pictures(text: str, before: str = "") -> str:
    """The same, character for character, including carriage returns."""
    if not _UNSAFE.search(text):
        return text
    before = before[-_LOOKBEHIND_CHARS:]
    return _UNSAFE.sub(_picture, before + text)[len(before) :]


def line_with_control_pictures(text: str) -> str:
    """The same for one line: line breaks and tabs are also replaced."""
    return (
        with_control_pictures(text)
        .replace("\n", "\N{SYMBOL FOR NEWLINE}")
        .replace("\t", "\N{SYMBOL FOR HORIZONTAL TABULATION}")
    )


def invisible_count(text: str) -> int:
    """Count the invisible characters, except inside emoji."""
    if text.isascii():  # the usual, and a paste may be megabytes
        return len(text) - len(text.encode().translate(None, _CONTROLS))
    if not any(map(_UNSAFE.match, set(text))):
        return 0
    return sum(_picture(found) != found.group() or _spells(found) for found in _UNSAFE.finditer(text))


def invisible_words(count: int) -> str:
    """The number of invisible characters in words; empty if there are none."""
    return f"{count:,} invisible character{'s' * (count != 1)}" if count else ""


def pasted_text(text: str) -> str:
    """Pasted or file text as it is sent: with line feeds, and without lone surrogates, which cannot be sent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def stable_prefix(text: str) -> str:
    """The prefix whose characters cannot change meaning with the following text."""
    return text[:-1] if _UNDECIDED_END.search(text, max(0, len(text) - _LOOKBEHIND_CHARS)) else text


def sanitised_line(text: str) -> str:
    """`sanitised` text in one line, for titles and lists."""
    return sanitised(" ".join(text.split("\n"))).replace("\t", " ")


def _picture(found: re.Match[str]) -> str:
    """The control picture of a C0 character or DEL; the replacement character otherwise. Variation selectors are
    kept: they hide nothing."""
    code = ord(found.group())
    if code in (0xFE0E, 0xFE0F) and (_SYMBOL.match(found.string, max(0, found.start() - 1)) or _is_key(found)):
        return found.group()
    if code == _JOINER and _joins(found):
        return found.group()
    if _spells(found):
        return chr(_NON_JOINER)  # the other one is taken for part of an emoji where cells are counted
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else _REPLACEMENT


def _joins(found: re.Match[str]) -> bool:
    """Whether the joiner is inside an emoji."""
    text, start, end = found.string, found.start(), found.end()
    return bool(
        _AFTER_JOINER.match(text, end) and _BEFORE_JOINER.search(text, max(0, start - _LOOKBEHIND_CHARS), start)
    )


def _spells(found: re.Match[str]) -> bool:
    """Whether the joiner is part of a word's spelling."""
    return found.group() in "\u200c\u200d" and _IN_WORD.match(found.string, found.start()) is not None


def _is_key(found: re.Match[str]) -> bool:
    """Whether it is part of a keycap emoji."""
    return found.string[found.end() : found.end() + 1] == "\N{COMBINING ENCLOSING KEYCAP}"
