"""Parses JSON as models write it in text: with Python's quotes and literals, and with trailing commas."""

import json
import re
from typing import NoReturn

from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH
from ebbtide.tools.lazy import regex

SURROGATE_ERROR = "the arguments contain half of a surrogate pair: send the whole character"
"""Error for arguments that cannot be encoded as UTF-8."""


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


_JSON = json.JSONDecoder(strict=False, parse_constant=_reject_constant)
_WHITESPACE = regex(r"\s*+")
# Possessive quantifiers make an unterminated string fail immediately.
_STRING = regex(
    r'"""((?:[^"\\]++|\\.|"(?!""))*+)"""|\'\'\'((?:[^\'\\]++|\\.|\'(?!\'\'))*+)\'\'\'|'
    r'"((?:[^"\\]++|\\.)*+)"|\'((?:[^\'\\]++|\\.)*+)\'',
    re.DOTALL,
)
_NUMBER = regex(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?(?![\w.])")
_LITERAL = regex(r"(?:true|false|null|True|False|None)\b")
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_ESCAPE = regex(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}


def is_encodable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_value(text: str, offset: int = 0) -> tuple[object, int]:
    """Parse the value at an offset, and return it with the offset of its end. Valid JSON is parsed as such, except that
    strings may contain line breaks. Raises `ValueError`, like the JSON decoder, if the value is incomplete or
    ambiguous: for example, if a string contains unescaped quotes or a closing bracket is missing."""
    if text.startswith('"""', offset):
        return _parse_value(text, offset, MAX_NESTING_DEPTH)
    try:
        return _JSON.raw_decode(text, offset)
    except RecursionError as error:
        raise json.JSONDecodeError("Nested too deep", text, offset) from error
    except ValueError:
        return _parse_value(text, offset, MAX_NESTING_DEPTH)


def parse_document(text: str) -> object:
    """Parse all of the text as one value, ignoring surrounding whitespace. Raises `ValueError` if it is invalid or
    followed by more text, and `RecursionError` if it is nested too deeply."""
    try:
        return _JSON.decode(text)
    except ValueError as strict_error:
        try:
            value, end = parse_value(text, _skip_whitespace(text, 0))
        except ValueError:
            raise strict_error from None
        if text[end:].strip():
            raise
        return value


def _parse_value(text: str, start: int, remaining_depth: int) -> tuple[object, int]:
    match text[start : start + 1]:
        case "{" | "[" if remaining_depth == 0:
            raise json.JSONDecodeError("Nested too deep", text, start)
        case "{":
            return _parse_object(text, start, remaining_depth - 1)
        case "[":
            return _parse_list(text, start, remaining_depth - 1)
        case '"' | "'":
            return _parse_string(text, start)
    if (literal := _LITERAL.match(text, start)) is not None:
        return _LITERALS[literal[0]], literal.end()
    if (number := _NUMBER.match(text, start)) is not None:
        return json.loads(number[0]), number.end()
    raise json.JSONDecodeError("Expecting value", text, start)


def _parse_object(text: str, start: int, remaining_depth: int) -> tuple[dict[str, object], int]:
    parsed = dict[str, object]()
    offset = _skip_whitespace(text, start + 1)
    while not text.startswith("}", offset):
        name, offset = _parse_string(text, offset)
        offset = _skip_whitespace(text, offset)
        if not text.startswith(":", offset):
            raise json.JSONDecodeError("Expecting ':' delimiter", text, offset)
        parsed[name], offset = _parse_value(text, _skip_whitespace(text, offset + 1), remaining_depth)
        offset = _skip_separator(text, offset, "}")
    return parsed, offset + 1


def _parse_list(text: str, start: int, remaining_depth: int) -> tuple[list[object], int]:
    items = list[object]()
    offset = _skip_whitespace(text, start + 1)
    while not text.startswith("]", offset):
        item, offset = _parse_value(text, offset, remaining_depth)
        items.append(item)
        offset = _skip_separator(text, offset, "]")
    return items, offset + 1


def _skip_separator(text: str, offset: int, closing_bracket: str) -> int:
    """Return the offset of the next item or of the closing bracket."""
    offset = _skip_whitespace(text, offset)
    if text.startswith(",", offset):
        return _skip_whitespace(text, offset + 1)
    if not text.startswith(closing_bracket, offset):
        raise json.JSONDecodeError("Expecting ',' delimiter", text, offset)
    return offset


def _parse_string(text: str, start: int) -> tuple[str, int]:
    """Parse a string. As in Python, an unknown escape keeps its backslash."""
    match = _STRING.match(text, start)
    if match is None:
        raise json.JSONDecodeError("Unterminated string", text, start)
    unescaped = _ESCAPE.sub(_unescape, match[match.lastindex or 0])
    try:
        return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le"), match.end()
    except UnicodeDecodeError as error:
        raise json.JSONDecodeError("Half of a surrogate pair", text, start) from error


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, match[0])


def _skip_whitespace(text: str, start: int) -> int:
    match = _WHITESPACE.match(text, start)
    assert match is not None
    return match.end()
