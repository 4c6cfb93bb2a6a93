"""Finds the tool calls in the JavaScript that Codex runs in its code mode. Pure.

In code mode (openai/codex, `codex-rs/code-mode/src/description.rs`), the model's tool `exec` takes JavaScript as plain
text, with an optional first line `// @exec: {…}` for limits. The code calls other tools as `await tools.NAME(…)`, with
an object, or with a string for tools such as `apply_patch`, and returns text with `text(…)`. If it runs longer, the
output is `Script running with cell ID N`, and the tool `wait` (`cell_id`) returns the rest. Recordings contain only the
calls of `exec` (`{"input": code}`) and `wait`.

Nothing is executed: an argument is known if it is written as literals, as constants with literals, or as a `+` or
`.join(…)` of them."""

import re
from dataclasses import dataclass
from typing import TypeAlias

LiteralValue: TypeAlias = "str | float | bool | list[LiteralValue] | dict[str, LiteralValue] | None"

_MAX_DEPTH = 40
"""Maximum nesting of literals."""
_STRING = r""" "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' | `(?:[^`\\]|\\.)*+` """
_COMMENT = r" //[^\n]*+ | /\*.*?\*/ "
_FOUND = re.compile(
    rf"""(?P<skipped>{_STRING}|{_COMMENT})
    | (?<![\w$.]) tools \s* (?: \. \s*(?P<name>[\w$]+) | \[ \s*["'](?P<key>[\w$]+)["']\s* \] ) \s* \(
    | (?<![\w$.]) const \s+ (?P<constant>[\w$]+) \s* = (?![=>])""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(rf"(?:\s|{_COMMENT.replace(' ', '')})*+", re.DOTALL)
_TEXT = re.compile(rf"(?P<raw>String\.raw\s*(?=`))?(?P<text>{_STRING})", re.VERBOSE | re.DOTALL)
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)(?![\w.])")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_JOIN = re.compile(r"\.join\s*\(")
_EXPRESSION_PART = re.compile(rf"{_STRING}|{_COMMENT}|(?P<open>[\[{{(])|(?P<close>[\]}})])|,", re.VERBOSE | re.DOTALL)
_INSERTION = re.compile(r"(?:[^\\$]|\\.|\$(?!\{))*+\$\{", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:u\{(?P<braced>[0-9a-fA-F]{1,6})\}|u(?P<four>[0-9a-fA-F]{4})|x(?P<two>[0-9a-fA-F]{2})|(?P<other>.))",
    re.DOTALL,
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "undefined": None}


@dataclass(frozen=True, slots=True)
class NestedCall:
    """A call that the code makes once or, in a loop, several times."""

    name: str
    argument: LiteralValue
    """The argument; None if it is not known. An object has only its known fields."""


def nested_calls(code: str) -> list[NestedCall]:
    """Return the calls of tools in the code, in order."""
    reader = _LiteralReader(code, {})
    calls: list[NestedCall] = []
    for found in _FOUND.finditer(code):
        if name := found["name"] or found["key"]:
            calls.append(NestedCall(name, reader.whole_value(found.end())))
        elif found["constant"]:
            reader.constants[found["constant"]] = reader.whole_value(found.end())
    return calls


def without_lone_surrogates(text: str) -> str:
    """Join the halves of split surrogate pairs, and replace lone surrogates, which cannot be sent, by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _UnknownValueError(Exception):
    """The value is only known when the code runs."""


class _UnreadableCodeError(Exception):
    """The code ends inside an expression, or literals are nested too deep."""


@dataclass(slots=True)
class _LiteralReader:
    code: str
    constants: dict[str, LiteralValue]

    def whole_value(self, start: int) -> LiteralValue:
        """Return the value of the expression at `start`; None if it is not known."""
        try:
            value, end = self._expression(start, 0)
        except (_UnknownValueError, _UnreadableCodeError):
            return None
        return value if self.code[end : end + 1] in ("", ";", ",", ")", "\n") else None

    def _expression(self, start: int, depth: int) -> tuple[LiteralValue, int]:
        value, end = self._value(self._after_space(start), depth)
        while True:
            next = self._after_space(end)
            if self.code[next : next + 1] == "+" and isinstance(value, str):
                added, end = self._value(self._after_space(next + 1), depth)
                if not isinstance(added, str):
                    raise _UnknownValueError
                value += added
            elif isinstance(value, list) and (join := _JOIN.match(self.code, next)):
                separator, end = self._expression(join.end(), depth + 1)
                texts = [text for text in value if isinstance(text, str)]
                if not isinstance(separator, str) or self.code[end : end + 1] != ")" or len(texts) < len(value):
                    raise _UnknownValueError
                value, end = separator.join(texts), end + 1
            else:
                # a line break ends a statement, so it must not be skipped unless the expression continues after it
                return value, end if "\n" in self.code[end:next] and self.code[next : next + 1] not in ",]}):" else next

    def _value(self, at: int, depth: int) -> tuple[LiteralValue, int]:
        if depth > _MAX_DEPTH:
            raise _UnreadableCodeError
        if match := _TEXT.match(self.code, at):
            return _text_value(match["text"], is_raw=bool(match["raw"])), match.end()
        if match := _NUMBER.match(self.code, at):
            return _number_value(match[0].replace("_", "").lower()), match.end()
        if self.code[at : at + 1] == "[":
            return self._list(at + 1, depth)
        if self.code[at : at + 1] == "{":
            return self._object(at + 1, depth)
        if match := _NAME.match(self.code, at):
            return self._named(match[0]), match.end()
        raise _UnknownValueError

    def _named(self, name: str) -> LiteralValue:
        if name in _WORDS:
            return _WORDS[name]
        value = self.constants.get(name)
        if value is None:
            raise _UnknownValueError
        return value

    def _list(self, at: int, depth: int) -> tuple[LiteralValue, int]:
        items: list[LiteralValue] = []
        while self.code[(at := self._after_space(at)) : at + 1] != "]":
            item, at = self._expression(at, depth + 1)
            items.append(item)
            at = self._after_comma(at, "]")
        return items, at + 1

    def _object(self, at: int, depth: int) -> tuple[LiteralValue, int]:
        fields: dict[str, LiteralValue] = {}
        while self.code[(at := self._after_space(at)) : at + 1] != "}":
            text, name = _TEXT.match(self.code, at), _NAME.match(self.code, at)
            if not (match := text or name):
                raise _UnknownValueError
            key = _text_value(match[0], is_raw=False) if text else match[0]
            after = self._after_space(match.end())
            try:
                if self.code[after : after + 1] == ":":
                    value, at = self._expression(after + 1, depth + 1)
                else:
                    value, at = self._named(match[0]), after
                at = self._after_comma(at, "}")
                fields[key] = value
            except _UnknownValueError:
                fields.pop(key, None)
                at = self._after_comma(self._expression_end(after), "}")
        return fields, at + 1

    def _expression_end(self, at: int) -> int:
        """Return the position of the comma or bracket that ends an expression."""
        level = 0
        for part in _EXPRESSION_PART.finditer(self.code, at):
            if part["open"]:
                level += 1
            elif part["close"] and level:
                level -= 1
            elif part["close"] or (part[0] == "," and not level):
                return part.start()
        raise _UnreadableCodeError

    def _after_comma(self, at: int, closing: str) -> int:
        at = self._after_space(at)
        match self.code[at : at + 1]:
            case ",":
                return at + 1
            case end if end == closing:
                return at
            case _:
                raise _UnknownValueError

    def _after_space(self, at: int) -> int:
        match = _SPACE.match(self.code, at)
        return match.end() if match else at


def _number_value(digits: str) -> float:
    if "x" in digits:
        return int(digits, 16)
    return float(digits) if "." in digits or "e" in digits or len(digits) > 18 else int(digits)


def _text_value(quoted: str, *, is_raw: bool) -> str:
    """Return the text of a quoted string. Raises `_UnknownValueError` if values are inserted into it."""
    text = quoted[1:-1]
    if quoted[0] == "`" and _INSERTION.match(text):
        raise _UnknownValueError
    return text if is_raw else without_lone_surrogates(_ESCAPE.sub(_unescaped, text))


def _unescaped(escape: re.Match[str]) -> str:
    if digits := escape["braced"] or escape["four"] or escape["two"]:
        code = int(digits, 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    return _ESCAPED.get(escape["other"], escape["other"])
