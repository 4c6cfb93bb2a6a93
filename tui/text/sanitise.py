"""Makes untrusted text safe to display."""

import re

from ebbtide.tools.lazy import regex

_JOINER, _NON_JOINER = 0x200D, 0x200C
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSAFE = regex(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 except newline and tab, and DEL
    "\x80-\x9f"  # C1
    "\xad\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # soft hyphen, joiners and fillers without a glyph
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, overrides and isolates
    "\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff"  # zero width and invisible operators
    "\u2028\u2029\ufff0-\ufffb"  # line and paragraph separators, annotations
    "\ufe00-\ufe0f"  # variation selectors, which `_visible_character` keeps in some places
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # joiners of scripts and musical symbols
    "\ud800-\udfff"  # lone surrogates, which cannot be written to a terminal
    "\U000e0000-\U000e0fff"  # tag characters and further variation selectors
    "]"
)
_CONTROL_BYTES = bytes({*range(0x20), 0x7F} - {*b"\n\t"})
_EMOJI_BASE = regex("[©®‼-㊙\U0001f000-\U0001faff]")
"""Symbols that may be followed by a variation selector."""
_EMOJI = "[↔↕☀-➿⬛⬜\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
_BEFORE_JOINER = regex(f"{_EMOJI}[\ufe0f\U0001f3fb-\U0001f3ff]?$")
_AFTER_JOINER = regex(_EMOJI)
_JOINED_SCRIPT_LETTERS = (
    "[\u0620-\u06d3\u06d5-\u06dc\u06df-\u070d\u0710-\u088f\u0897-\u08e1\u08e3-\u0dff"
    "\u1000-\u109f\u1780-\u17b3\u17b6-\u17d3]"
)
"""Letters of scripts that need joiners for correct spelling: Arabic and related scripts, Indic, Burmese, Khmer."""
_JOINER_IN_WORD = regex(f"(?<={_JOINED_SCRIPT_LETTERS})[\u200c\u200d](?={_JOINED_SCRIPT_LETTERS})")
_UNDECIDED_END = regex("(?:\r|\u200c|\u200d|(?<=[0-9#*])\ufe0f)\\Z")
_LOOKBEHIND_CHARS = 2
"""How many characters before a joiner decide whether it is legitimate."""


def sanitise(text: str, preceding_text: str = "") -> str:
    """Replace every control or invisible character with a visible one. Joiners are kept in emoji and in words that need
    them. `preceding_text`: what came before, if the text comes in pieces."""
    return with_control_pictures(text.replace("\r\n", "\n") if "\r" in text else text, preceding_text)


def with_control_pictures(text: str, preceding_text: str = "") -> str:
    """Do the same as `sanitise`, but replace carriage returns too, so that the length stays the same."""
    if not _UNSAFE.search(text):
        return text
    preceding_text = preceding_text[-_LOOKBEHIND_CHARS:]
    return _UNSAFE.sub(_visible_character, preceding_text + text)[len(preceding_text) :]


def line_with_control_pictures(text: str) -> str:
    """Do the same as `with_control_pictures` for a single line, and also replace line breaks and tabs."""
    return (
        with_control_pictures(text)
        .replace("\n", "\N{SYMBOL FOR NEWLINE}")
        .replace("\t", "\N{SYMBOL FOR HORIZONTAL TABULATION}")
    )


def count_invisible_characters(text: str) -> int:
    """Count the invisible characters, excluding those inside emoji."""
    if text.isascii():  # the usual case, which must be fast because a paste may be megabytes long
        return len(text) - len(text.encode().translate(None, _CONTROL_BYTES))
    if not any(map(_UNSAFE.match, set(text))):
        return 0
    return sum(_visible_character(match) != match.group() or _is_in_word(match) for match in _UNSAFE.finditer(text))


def describe_invisible_count(count: int) -> str:
    """Format a phrase such as `2 invisible characters`; empty if there are none."""
    return f"{count:,} invisible character{'s' * (count != 1)}" if count else ""


def normalise_paste(text: str) -> str:
    """Normalise pasted text or file content for sending: only line feeds, and no lone surrogates, which cannot be
    sent."""
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def stable_prefix(text: str) -> str:
    """Get the start of the text that will be displayed the same, whatever text follows."""
    return text[:-1] if _UNDECIDED_END.search(text, max(0, len(text) - _LOOKBEHIND_CHARS)) else text


def sanitise_line(text: str) -> str:
    """Sanitise text and put it on one line, for titles and lists."""
    return sanitise(" ".join(text.split("\n"))).replace("\t", " ")


def _visible_character(match: re.Match[str]) -> str:
    """Replace a C0 character or DEL with its control picture, and others with the replacement character. Legitimate
    variation selectors and joiners are kept."""
    code = ord(match.group())
    if code in (0xFE0E, 0xFE0F) and (
        _EMOJI_BASE.match(match.string, max(0, match.start() - 1)) or _is_in_keycap(match)
    ):
        return match.group()
    if code == _JOINER and _is_in_emoji(match):
        return match.group()
    if _is_in_word(match):
        return chr(_NON_JOINER)  # a joiner would be counted as part of an emoji
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else _REPLACEMENT


def _is_in_emoji(match: re.Match[str]) -> bool:
    """Whether the joiner is part of an emoji."""
    text, start, end = match.string, match.start(), match.end()
    return bool(
        _AFTER_JOINER.match(text, end) and _BEFORE_JOINER.search(text, max(0, start - _LOOKBEHIND_CHARS), start)
    )


def _is_in_word(match: re.Match[str]) -> bool:
    """Whether the joiner is needed to spell a word."""
    return match.group() in "\u200c\u200d" and _JOINER_IN_WORD.match(match.string, match.start()) is not None


def _is_in_keycap(match: re.Match[str]) -> bool:
    """Whether the character is part of a keycap emoji."""
    return match.string[match.end() : match.end() + 1] == "\N{COMBINING ENCLOSING KEYCAP}"
