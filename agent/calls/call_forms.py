"""Parses the forms in which models write calls as text: JSON objects, bare or fenced, and the tags and markers of
model families. Pure."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from ebbtide.agent.providers.loose_json import read_value, read_whole
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.schema import MAX_DEPTH, is_nested

_SPACE = r"(?:｜DSML｜|[a-z]{1,20}:)?"
"""Prefixes that some families put before their tag names."""
_TAGS = rf"{_SPACE}(?:tool_calls?|function_calls?|tools|tool_use)"
_FENCE = regex(r"[ \t]*(`{3,}|~{3,})([\w-]*)\s*")
OPEN = regex(rf"<({_TAGS})>\s*")
_MARK = regex(r"\[TOOL_CALLS\]\s*|<\|(?:python_tag|tool_call)\|>\s*|functools(?=\[)")
_MARK_END = regex(r"\s*<\|/tool_call\|>")
_MISTRAL = regex(r"(?:\[TOOL_CALLS\])?([\w.-]+)\[ARGS\]\s*")
_FUNCTION = regex(rf"<(function)=([\w.-]+)>\s*|<({_SPACE}invoke) name=\"([\w.-]+)\">\s*")
_PARAMETER = regex(
    rf"<{_SPACE}parameter(?:=([\w.-]+)| name=\"([\w.-]+)\")(?: string=\"\w+\")?>\n?(.*?)\n?</{_SPACE}parameter>\s*",
    re.DOTALL,
)
_ELEMENT = regex(r"<(?:function|tool|invoke|call|tool_call)\s+name=\"([\w.-]+)\"((?:\s+[\w-]+=\"[^\"<]*\")*)\s*/>\s*")
_ATTRIBUTE = regex(r"([\w-]+)=\"([^\"<]*)\"")
_GLM = regex(r"([\w.-]+)\s*(?=<arg_key>)")
_PAIR = regex(r"<arg_key>\s*([\w.-]+)\s*</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>\s*", re.DOTALL)
_DEEPSEEK = regex(
    r"(?:<｜tool▁calls▁begin｜>\s*)?<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>([\w.-]+)\s*```json\s*|([\w.-]+)<｜tool▁sep｜>\s*)"
)
_DEEPSEEK_END = regex(r"\s*(?:```\s*)?<｜tool▁call▁end｜>(?:\s*<｜tool▁calls▁end｜>)?")
_KIMI = regex(
    r"(?:<\|tool_calls_section_begin\|>\s*)?<\|tool_call_begin\|>\s*(?:functions\.)?([\w.-]+?)(?::\d+)?\s*"
    r"<\|tool_call_argument_begin\|>\s*"
)
_KIMI_END = regex(r"\s*<\|tool_call_end\|>(?:\s*<\|tool_calls_section_end\|>)?")
_REACT = regex(r"Action:[ \t]*`?([\w.-]+)`?[ \t]*\n\s*Action Input:[ \t]*")
CODE_HEAD = (
    r"(?:print\([ \t]*)?(?:[A-Za-z_]\w*\.)?[A-Za-z_][\w-]*\(\s*(?:\{|[A-Za-z_]\w*[ \t]*=[ \t]*[\"'\[{\dTFNtfn-])"
)
_CODE = regex(r"(print\([ \t]*)?(?:[A-Za-z_]\w*\.)?([A-Za-z_][\w-]*)\(\s*")
_LINE_END = regex(r"[ \t]*(?:\n|\Z|```|<)")
_KEYWORD = regex(r"\s*([A-Za-z_]\w*)[ \t]*=[ \t]*")
_CODE_LANGUAGES = {
    "",
    "tool_code",
    "tool_call",
    "tool_calls",
    "tool",
    "python",
    "py",
    "json",
    "text",
    "plaintext",
    "xml",
}
_HARMONY = regex(
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)?\s*to=(?:functions\.)?([\w.-]+)[^{<]*(?:<\|[a-z]+\|>[^{<]*)*"
)
_HARMONY_END = regex(r"\s*<\|(?:call|end|return)\|>")
_STOPS = regex(r"\s*(?:```\s*\Z|<\|(?:im_end|eot_id|eom_id|endoftext)\|>|</s>)")
CALL_MARKS = (
    rf"<(?:{_TAGS})>|\[TOOL_CALLS\]|<\|(?:python_tag|tool_call)\|>|functools\[|<function=|<{_SPACE}invoke name=|"
    r"<｜tool▁calls?▁begin｜>|<\|tool_calls?_(?:section_)?begin\|>|<\|start\|>assistant\s*to=|(?:<\|start\|>assistant)?<\|channel\|>\w+\s*to="
)
_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_OTHER_KEYS = {"id", "type", "tool_call_id"}


@dataclass(frozen=True, slots=True)
class WrittenCall:
    name: str
    arguments: Mapping[str, object]
    is_loose: bool = field(default=False, compare=False)
    """Whether the form could also be ordinary code or data: it counts as a call only if it names a tool and just the
    tool's arguments."""


def block_at(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls of one block in a text and its end, including the model's end marker."""
    found = _piece(text, start)
    stop = _STOPS.match(text, found[1]) if found is not None else None
    return (found[0], stop.end()) if found is not None and stop is not None else found


def _piece(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    if (fence := _FENCE.match(text, start)) is not None:
        found = marked_at(text, fence.end()) or _objects(text, fence.end())
        if found is None and fence[2].lower() in _CODE_LANGUAGES:
            found = _code(text, fence.end())
        return _with_closing(found, text, fence[1])
    return marked_at(text, start) or _objects(text, start) or _code(text, start)


def marked_at(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls after a tag or marker."""
    if (tag := OPEN.match(text, start)) is not None:
        return _with_closing(
            _functions(text, tag.end())
            or _elements(text, tag.end())
            or _pairs(text, tag.end())
            or _objects(text, tag.end())
            or _code(text, tag.end()),
            text,
            f"</{tag[1]}>",
        )
    if (head := _MISTRAL.match(text, start)) is not None:
        return _call_named(text, head[1], head.end(), None)
    if (head := _DEEPSEEK.match(text, start)) is not None:
        return _call_named(text, head[1] or head[2], head.end(), _DEEPSEEK_END)
    if (mark := _MARK.match(text, start)) is not None:
        found = _objects(text, mark.end()) or _code(text, mark.end())
        end = _MARK_END.match(text, found[1]) if found is not None else None
        return (found[0], end.end()) if found is not None and end is not None else found
    if (head := _KIMI.match(text, start)) is not None:
        return _call_named(text, head[1], head.end(), _KIMI_END)
    if (head := _REACT.match(text, start)) is not None:
        return _call_named(text, head[1], head.end(), None)
    if (head := _HARMONY.match(text, start)) is not None:
        return _call_named(text, head[1], head.end(), _HARMONY_END)
    return _functions(text, start)


def _with_closing(
    found: tuple[list[WrittenCall], int] | None, text: str, end: str
) -> tuple[list[WrittenCall], int] | None:
    """The result extended by the closing of the block, which may be missing at the end of the text; None if
    something else follows."""
    if found is None:
        return None
    place = behind_blanks(text, found[1])
    if text.startswith(end, place):
        return found[0], place + len(end)
    return (found[0], place) if place == len(text) else None


def _objects(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls of consecutive JSON values; None if one of them is not a call."""
    calls = list[WrittenCall]()
    end = start
    while (place := behind_blanks(text, end)) < len(text) and text[place] in "[{":
        try:
            value, end = read_value(text, place)
        except ValueError:
            return None
        found = None if is_nested(value, MAX_DEPTH) else list(_calls_of(value))
        if not found or None in found:
            return None
        calls += [call for call in found if call is not None]
    return (calls, end) if calls else None


def _code(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """Calls written as code, `name(key="value")` or `name({...})`, consecutive or in a list."""
    calls, end = list[WrittenCall](), start
    is_list = text.startswith("[", start)
    end = start + is_list
    while (head := _CODE.match(text, behind_blanks(text, end))) is not None:
        found = _bracket_arguments(text, head.end())
        if found is None:
            return None
        arguments, place = found
        closing = "))" if head[1] else ")"
        for sign in closing:
            place = behind_blanks(text, place)
            if not text.startswith(sign, place):
                return None
            place += 1
        calls.append(WrittenCall(head[2], arguments, is_loose=True))
        end = place + text.startswith((",", ";"), place)
        if not is_list and _LINE_END.match(text, end) is None:
            return None
    if is_list:
        end = behind_blanks(text, end)
        return (calls, end + 1) if calls and text.startswith("]", end) else None
    return (calls, end) if calls else None


def _bracket_arguments(text: str, start: int) -> tuple[dict[str, object], int] | None:
    """The arguments after an opening bracket, as an object or as keywords, and their end."""
    arguments, end = dict[str, object](), start
    try:
        if text.startswith("{", start):
            value, end = read_value(text, start)
            return (value, end) if isinstance(value, dict) and not is_nested(value, MAX_DEPTH) else None
        while (name := _KEYWORD.match(text, end)) is not None:
            arguments[name[1]], end = read_value(text, name.end())
            end = behind_blanks(text, end)
            if not text.startswith(",", end):
                break
            end += 1
    except ValueError:
        return None
    return (arguments, end) if arguments and not is_nested(arguments, MAX_DEPTH) else None


def _functions(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """Consecutive functions with parameters in tags, or with an object."""
    calls, end = list[WrittenCall](), start
    while (head := _FUNCTION.match(text, behind_blanks(text, end))) is not None:
        arguments, end = dict[str, object](), head.end()
        while (parameter := _PARAMETER.match(text, end)) is not None:
            arguments[parameter[1] or parameter[2]], end = parameter[3], parameter.end()
        name = head[2] or head[4]
        found = ([WrittenCall(name, arguments)], end) if arguments else _call_named(text, name, end, None)
        found = _with_closing(found or ([WrittenCall(name, {})], end), text, f"</{head[1] or head[3]}>")
        if found is None:
            return None
        calls += found[0]
        end = found[1]
    return (calls, end) if calls else None


def _elements(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """Self-closing tags with the arguments as attributes."""
    calls, end = list[WrittenCall](), start
    while (one := _ELEMENT.match(text, end)) is not None:
        arguments = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(one[2])}
        calls, end = [*calls, WrittenCall(one[1], arguments)], one.end()
    return (calls, end) if calls else None


def _pairs(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """A name, followed by keys and values in tags."""
    head = _GLM.match(text, start)
    if head is None:
        return None
    arguments, end = dict[str, object](), head.end()
    while (pair := _PAIR.match(text, end)) is not None:
        arguments[pair[1]], end = pair[2], pair.end()
    return ([WrittenCall(head[1], arguments)], end) if arguments else None


def _call_named(
    text: str, name: str, start: int, close: "re.Pattern[str] | None"
) -> tuple[list[WrittenCall], int] | None:
    """The call of a tool whose name precedes its arguments."""
    if not text.startswith("{", start):
        return None
    try:
        arguments, end = read_value(text, start)
    except ValueError:
        return None
    if not isinstance(arguments, dict) or is_nested(arguments, MAX_DEPTH):
        return None
    closing = close.match(text, end) if close is not None else None
    return [WrittenCall(name, arguments)], closing.end() if closing else end


def _calls_of(value: Any) -> Iterator[WrittenCall | None]:  # noqa: ANN401  # any JSON
    """The calls that a value represents; None for anything that is not one."""
    if isinstance(value, list):
        for item in value:
            yield from _calls_of(item)
        return
    if isinstance(value, dict) and set(value) == {"tool_calls"} and isinstance(value["tool_calls"], list):
        yield from _calls_of(value["tool_calls"])
        return
    if isinstance(value, dict) and isinstance(value.get("function"), dict) and set(value) - _OTHER_KEYS == {"function"}:
        value = value["function"]
    yield _call_of(value)


def _call_of(value: object) -> WrittenCall | None:
    if not isinstance(value, dict):
        return None
    if not any(key in value for key in _ARGUMENTS):
        return _loose_call_of(value)
    if len(set(value) - _OTHER_KEYS) != 2:
        return None
    name = next((value[key] for key in _NAMES if key in value), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = read_whole(arguments)
        except (ValueError, RecursionError):
            return None
    return WrittenCall(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _loose_call_of(value: Mapping[str, object]) -> WrittenCall | None:
    """A name beside its arguments, or a name as the only key: `{"tool": "bash", "command": "ls"}` and `{"bash":
    {"command": "ls"}}`."""
    if len(value) == 1:
        ((tool, inner),) = value.items()
        return WrittenCall(tool, inner, is_loose=True) if isinstance(inner, dict) else None
    key = next((key for key in _NAMES[1:] if key in value), "")
    name, arguments = value.get(key), {each: value[each] for each in value if each != key and each not in _OTHER_KEYS}
    return WrittenCall(name, arguments, is_loose=True) if isinstance(name, str) and arguments else None


def behind_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start
