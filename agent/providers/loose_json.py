"""Parses JSON as models write it by hand: with Python's quotes and literals, and with trailing commas. Pure."""

import json
import re
from typing import NoReturn

from ebbtide.tools.lazy import regex
from ebbtide.tools.schema import MAX_DEPTH

HALF_PAIR = "the arguments hold half of a surrogate pair: send the character whole"
"""The error for arguments that cannot be encoded."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


_JSON = json.JSONDecoder(strict=False, parse_constant=_refuse)
_BLANK = regex(r"\s*+")
# Possessive, so that an unterminated string fails at once.
_STRING = regex(
    r'"""((?:[^"\\]++|\\.|"(?!""))*+)"""|\'\'\'((?:[^\'\\]++|\\.|\'(?!\'\'))*+)\'\'\'|'
    r'"((?:[^"\\]++|\\.)*+)"|\'((?:[^\'\\]++|\\.)*+)\'',
    re.DOTALL,
)
_NUMBER = regex(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_WORD = regex(r"(?:true|false|null|True|False|None)\b")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE = regex(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}


def is_text(text: str) -> bool:
    """Whether the text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_value(text: str, start: int = 0) -> tuple[object, int]:
    """Parse the value that starts at an index; return it and its end. Valid JSON is parsed as JSON, except that
    strings may contain line breaks. Raises `ValueError` like the JSON decoder if the value is incomplete or
    ambiguous: unescaped quotes in a string, a missing closing bracket."""
    if text.startswith('"""', start):
        return _value(text, start, MAX_DEPTH)
    try:
        return _JSON.raw_decode(text, start)
    except RecursionError as error:
        raise json.JSONDecodeError("Nested too deep", text, start) from error
    except ValueError:
        return _value(text, start, MAX_DEPTH)


def read_whole(text: str) -> object:
    """Parse a whole text as one value, ignoring surrounding whitespace. Raises `ValueError` if it is invalid or
    followed by more text, and `RecursionError` if it is nested too deeply."""
    try:
        return _JSON.decode(text)
    except ValueError as strict:
        try:
            value, end = read_value(text, _behind_blanks(text, 0))
        except ValueError:
            raise strict from None
        if text[end:].strip():
            raise
        return value


def _value(text: str, start: int, levels: int) -> tuple[object, int]:
    match text[start : start + 1]:
        case "{" | "[" if levels == 0:
            raise json.JSONDecodeError("Nested too deep", text, start)
        case "{":
            return _object(text, start, levels - 1)
        case "[":
            return _list(text, start, levels - 1)
        case '"' | "'":
            return _string(text, start)
    if (word := _WORD.match(text, start)) is not None:
        return _WORDS[word[0]], word.end()
    if (number := _NUMBER.match(text, start)) is not None:
        return json.loads(number[0]), number.end()
    raise json.JSONDecodeError("Expecting value", text, start)


def _object(text: str, start: int, levels: int) -> tuple[dict[str, object], int]:
    made = dict[str, object]()
    place = _behind_blanks(text, start + 1)
    while not text.startswith("}", place):
        name, place = _string(text, place)
        place = _behind_blanks(text, place)
        if not text.startswith(":", place):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, place)
        made[name], place = _value(text, _behind_blanks(text, place + 1), levels)
        place = _behind_item(text, place, "}")
    return made, place + 1


def _list(text: str, start: int, levels: int) -> tuple[list[object], int]:
    made = list[object]()
    place = _behind_blanks(text, start + 1)
    while not text.startswith("]", place):
        item, place = _value(text, place, levels)
        made.append(item)
        place = _behind_item(text, place, "]")
    return made, place + 1


def _behind_item(text: str, place: int, end: str) -> int:
    """The index of the next item or of the closing bracket."""
    place = _behind_blanks(text, place)
    if text.startswith(",", place):
        return _behind_blanks(text, place + 1)
    if not text.startswith(end, place):
        raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
    return place


def _string(text: str, start: int) -> tuple[str, int]:
    """Parse a string. As in Python, an unknown escape keeps its backslash."""
    found = _STRING.match(text, start)
    if found is None:
        raise json.JSONDecodeError("Expecting a string that ends", text, start)
    said = _ESCAPE.sub(_unescape, found[found.lastindex or 0])
    try:
        return said.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), found.end()
    except UnicodeDecodeError as error:
        raise json.JSONDecodeError("Half of a surrogate pair", text, start) from error


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, found[0])


def _behind_blanks(text: str, start: int) -> int:
    found = _BLANK.match(text, start)
    assert found is not None
    return found.end()
