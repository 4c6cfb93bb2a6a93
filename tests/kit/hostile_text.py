"""Texts that want to steer a terminal, or to hide in it, in every place where a text can be."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

PAYLOADS: Mapping[str, str] = {
    "title": "\x1b]0;owned\x07\x1b]2;owned\x1b\\",
    "clipboard": "\x1b]52;c;b3duZWQ=\x07\x1b]52;c;?\x07",
    "link": "\x1b]8;;http://owned\x07owned\x1b]8;;\x07",
    "strings": "\x1bPq#owned\x1b\\\x1b_Gowned\x1b\\\x1b^owned\x1b\\\x1bXowned\x1b\\",
    "modes": "\x1b[?1049l\x1b[?25h\x1b[?1003l\x1b[?2004l\x1b[4h",
    "reset": "\x1bc\x1b[!p\x1b[2J\x1b[3J",
    "questions": "\x1b[6n\x1b[c\x1b[>q\x1b[21t\x05",
    "style": "\x1b[5;8;53m",
    "places": "\x1b[777;777H\x1b[99A\x1bM\x1b7\x1b8",
    "controls": "\x00\x07\x08\x0b\x0c\x0e\x0f\x7f over\rwritten",
    "eight bits": "".join(map(chr, range(0x80, 0xA0))) + "\x9b31m\x9d0;owned\x9c\x90q\x9c",
    "directions": "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u202c\u200e\u200f\u061c txt.exe",
    "lines": "a\u2028b\u2029c\x85d",
    "nothing": "\u200b\u200c\u200d\u2060\u2063\ufeff\xad\u034f\u180e\U0001d173\U00013430",
    "glyphs": "a\ufe00b\ufe0ec\ufe0fd\U000e0100e\ufe0f\ufe0f\ufe0f",
    "tags": "\U000e0041\U000e0062\U000e007f",
    "halves": "\ud83d x \udc80 \udfff",
}
HOSTILE = "bad " + " ".join(PAYLOADS.values())
LINES = "\n".join(PAYLOADS.values())


_FOR_TYPES_ONLY: dict[str, Any] = dict.fromkeys(
    ("SessionNetwork", "NetworkAccess", "Boundary", "Repositories", "FolderListing"), NoneType
)
"""Parts of a sandbox that its module knows for types only. They hold no text."""


def filled(hint: Any, text: str) -> Any:
    """A value of a type, with this text wherever it holds one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is NoneType or getattr(hint, "_is_protocol", False):
        return None
    if hint is str or hint is object:
        return text
    if hint is Path:
        return Path("/home/me") / text
    if hint in (bool, int, float, bytes):
        return hint(1)
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return tuple(filled(each, text) for each in arguments if each is not ...)
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint, localns=_FOR_TYPES_ONLY)
        return hint(**{field.name: filled(hints[field.name], text) for field in fields(hint)})
    if origin is not None and issubclass_of(origin, Mapping):
        return {"command": text, "path": text, text: text}
    return filled(next(each for each in arguments if each is not NoneType), text)


def issubclass_of(kind: object, of: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, of)
