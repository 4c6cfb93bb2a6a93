"""Parses calls that models write as text: JSON objects, bare or fenced, and the tags and markers of model families. No
I/O."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from ebbtide.agent.providers.loose_json import parse_document, parse_value
from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH, is_nested_deeper
from ebbtide.tools.lazy import dataclass, regex

_TAG_PREFIX = r"(?:｜DSML｜|[a-z]{1,20}:)?"
"""Prefixes that some model families put before tag names."""
_TAGS = rf"{_TAG_PREFIX}(?:tool_calls?|function_calls?|tools|tool_use)"
_FENCE = regex(r"[ \t]*(`{3,}|~{3,})([\w-]*)\s*")
OPENING_TAG = regex(rf"<({_TAGS})>\s*")
_MARKER = regex(r"\[TOOL_CALLS\]\s*|<\|(?:python_tag|tool_call)\|>\s*|functools(?=\[)")
_MARKER_END = regex(r"\s*<\|/tool_call\|>")
_MISTRAL = regex(r"(?:\[TOOL_CALLS\])?([\w.-]+)\[ARGS\]\s*")
_FUNCTION = regex(rf"<(function)=([\w.-]+)>\s*|<({_TAG_PREFIX}invoke) name=\"([\w.-]+)\">\s*")
_PARAMETER = regex(
    rf"<{_TAG_PREFIX}parameter(?:=([\w.-]+)| name=\"([\w.-]+)\")(?: "
    rf"string=\"\w+\")?>\n?(.*?)\n?</{_TAG_PREFIX}parameter>\s*",
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
CODE_CALL_START = (
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
_END_MARKER = regex(r"\s*(?:```\s*\Z|<\|(?:im_end|eot_id|eom_id|endoftext)\|>|</s>)")
CALL_MARKERS = (
    rf"<(?:{_TAGS})>|\[TOOL_CALLS\]|<\|(?:python_tag|tool_call)\|>|functools\[|<function=|<{_TAG_PREFIX}invoke name=|"
    r"<｜tool▁calls?▁begin｜>|<\|tool_calls?_(?:section_)?begin\|>|<\|start\|>assistant\s*to=|(?:<\|start\|>assistant)?<\|channel\|>\w+\s*to="
)
_NAME_KEYS = ("name", "tool", "tool_name", "function", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_OTHER_KEYS = {"id", "type", "tool_call_id"}


@dataclass(frozen=True, slots=True)
class TextCall:
    name: str
    arguments: Mapping[str, object]
    is_ambiguous: bool = field(default=False, compare=False)
    """Whether the form is also common in ordinary code or data. Such a form counts as a call only if it names a tool
    and all its arguments are parameters of that tool."""


class ParsedCalls(NamedTuple):
    calls: list[TextCall]
    end: int
    """Offset after the calls."""


def parse_call_block(text: str, start: int) -> ParsedCalls | None:
    """Parse the calls in the block at `start`. Also return the offset after the block and the model's end marker."""
    parsed = _parse_block(text, start)
    end_marker = _END_MARKER.match(text, parsed.end) if parsed is not None else None
    return ParsedCalls(parsed.calls, end_marker.end()) if parsed is not None and end_marker is not None else parsed


def _parse_block(text: str, start: int) -> ParsedCalls | None:
    if (fence := _FENCE.match(text, start)) is not None:
        parsed = parse_marked_calls(text, fence.end()) or _parse_json_calls(text, fence.end())
        if parsed is None and fence[2].lower() in _CODE_LANGUAGES:
            parsed = _parse_code_calls(text, fence.end())
        return _require_closing(parsed, text, fence[1])
    return parse_marked_calls(text, start) or _parse_json_calls(text, start) or _parse_code_calls(text, start)


def parse_marked_calls(text: str, start: int) -> ParsedCalls | None:
    """Parse the calls after a tag or marker. Also return where they end. None if there are none."""
    if (tag := OPENING_TAG.match(text, start)) is not None:
        return _require_closing(
            _parse_function_tags(text, tag.end())
            or _parse_self_closing_tags(text, tag.end())
            or _parse_key_value_tags(text, tag.end())
            or _parse_json_calls(text, tag.end())
            or _parse_code_calls(text, tag.end()),
            text,
            f"</{tag[1]}>",
        )
    if (match := _MISTRAL.match(text, start)) is not None:
        return _parse_named_call(text, match[1], match.end(), None)
    if (match := _DEEPSEEK.match(text, start)) is not None:
        return _parse_named_call(text, match[1] or match[2], match.end(), _DEEPSEEK_END)
    if (marker := _MARKER.match(text, start)) is not None:
        parsed = _parse_json_calls(text, marker.end()) or _parse_code_calls(text, marker.end())
        end_marker = _MARKER_END.match(text, parsed.end) if parsed is not None else None
        return ParsedCalls(parsed.calls, end_marker.end()) if parsed is not None and end_marker is not None else parsed
    if (match := _KIMI.match(text, start)) is not None:
        return _parse_named_call(text, match[1], match.end(), _KIMI_END)
    if (match := _REACT.match(text, start)) is not None:
        return _parse_named_call(text, match[1], match.end(), None)
    if (match := _HARMONY.match(text, start)) is not None:
        return _parse_named_call(text, match[1], match.end(), _HARMONY_END)
    return _parse_function_tags(text, start)


def _require_closing(parsed: ParsedCalls | None, text: str, closing: str) -> ParsedCalls | None:
    """Move the end of the calls past the block's closing marker, which may be missing at the end of the text. None if
    something else follows."""
    if parsed is None:
        return None
    offset = skip_whitespace(text, parsed.end)
    if text.startswith(closing, offset):
        return ParsedCalls(parsed.calls, offset + len(closing))
    return ParsedCalls(parsed.calls, offset) if offset == len(text) else None


def _parse_json_calls(text: str, start: int) -> ParsedCalls | None:
    """Parse consecutive JSON values as calls. Also return where they end. None if one of the values is not a call."""
    calls = list[TextCall]()
    end = start
    while (offset := skip_whitespace(text, end)) < len(text) and text[offset] in "[{":
        try:
            value, end = parse_value(text, offset)
        except ValueError:
            return None
        parsed = None if is_nested_deeper(value, MAX_NESTING_DEPTH) else list(_calls_from_json(value))
        if not parsed or None in parsed:
            return None
        calls += [call for call in parsed if call is not None]
    return ParsedCalls(calls, end) if calls else None


def _parse_code_calls(text: str, start: int) -> ParsedCalls | None:
    """Parse calls written as code, `name(key="value")` or `name({...})`, one after another or in a list. Also return
    where they end."""
    calls, end = list[TextCall](), start
    is_list = text.startswith("[", start)
    end = start + is_list
    while (match := _CODE.match(text, skip_whitespace(text, end))) is not None:
        parsed = _parse_code_arguments(text, match.end())
        if parsed is None:
            return None
        arguments, offset = parsed
        closing = "))" if match[1] else ")"
        for bracket in closing:
            offset = skip_whitespace(text, offset)
            if not text.startswith(bracket, offset):
                return None
            offset += 1
        calls.append(TextCall(match[2], arguments, is_ambiguous=True))
        end = offset + text.startswith((",", ";"), offset)
        if not is_list and _LINE_END.match(text, end) is None:
            return None
    if is_list:
        end = skip_whitespace(text, end)
        return ParsedCalls(calls, end + 1) if calls and text.startswith("]", end) else None
    return ParsedCalls(calls, end) if calls else None


def _parse_code_arguments(text: str, start: int) -> tuple[dict[str, object], int] | None:
    """Parse the arguments after an opening bracket, given as an object or as keywords. Also return where they end."""
    arguments, end = dict[str, object](), start
    try:
        if text.startswith("{", start):
            value, end = parse_value(text, start)
            return (value, end) if isinstance(value, dict) and not is_nested_deeper(value, MAX_NESTING_DEPTH) else None
        while (keyword_match := _KEYWORD.match(text, end)) is not None:
            arguments[keyword_match[1]], end = parse_value(text, keyword_match.end())
            end = skip_whitespace(text, end)
            if not text.startswith(",", end):
                break
            end += 1
    except ValueError:
        return None
    return (arguments, end) if arguments and not is_nested_deeper(arguments, MAX_NESTING_DEPTH) else None


def _parse_function_tags(text: str, start: int) -> ParsedCalls | None:
    """Parse consecutive functions whose parameters are in tags or in a JSON object."""
    calls, end = list[TextCall](), start
    while (match := _FUNCTION.match(text, skip_whitespace(text, end))) is not None:
        arguments, end = dict[str, object](), match.end()
        while (parameter := _PARAMETER.match(text, end)) is not None:
            arguments[parameter[1] or parameter[2]], end = parameter[3], parameter.end()
        name = match[2] or match[4]
        parsed = (
            ParsedCalls([TextCall(name, arguments)], end) if arguments else _parse_named_call(text, name, end, None)
        )
        parsed = parsed or ParsedCalls([TextCall(name, {})], end)
        parsed = _require_closing(parsed, text, f"</{match[1] or match[3]}>")
        if parsed is None:
            return None
        calls += parsed.calls
        end = parsed.end
    return ParsedCalls(calls, end) if calls else None


def _parse_self_closing_tags(text: str, start: int) -> ParsedCalls | None:
    """Parse calls in self-closing tags, with the arguments as attributes."""
    calls, end = list[TextCall](), start
    while (element := _ELEMENT.match(text, end)) is not None:
        arguments = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(element[2])}
        calls, end = [*calls, TextCall(element[1], arguments)], element.end()
    return ParsedCalls(calls, end) if calls else None


def _parse_key_value_tags(text: str, start: int) -> ParsedCalls | None:
    """Parse a call written as a name, followed by keys and values in tags."""
    match = _GLM.match(text, start)
    if match is None:
        return None
    arguments, end = dict[str, object](), match.end()
    while (pair := _PAIR.match(text, end)) is not None:
        arguments[pair[1]], end = pair[2], pair.end()
    return ParsedCalls([TextCall(match[1], arguments)], end) if arguments else None


def _parse_named_call(text: str, name: str, start: int, end_pattern: "re.Pattern[str] | None") -> ParsedCalls | None:
    """Parse a call in which the tool's name comes before its arguments."""
    if not text.startswith("{", start):
        return None
    try:
        arguments, end = parse_value(text, start)
    except ValueError:
        return None
    if not isinstance(arguments, dict) or is_nested_deeper(arguments, MAX_NESTING_DEPTH):
        return None
    end_match = end_pattern.match(text, end) if end_pattern is not None else None
    return ParsedCalls([TextCall(name, arguments)], end_match.end() if end_match else end)


def _calls_from_json(value: Any) -> Iterator[TextCall | None]:  # noqa: ANN401  # any JSON
    """Yield the calls that a value represents, with None for anything that is not a call."""
    if isinstance(value, list):
        for item in value:
            yield from _calls_from_json(item)
        return
    if isinstance(value, dict) and set(value) == {"tool_calls"} and isinstance(value["tool_calls"], list):
        yield from _calls_from_json(value["tool_calls"])
        return
    if isinstance(value, dict) and isinstance(value.get("function"), dict) and set(value) - _OTHER_KEYS == {"function"}:
        value = value["function"]
    yield _call_from_json(value)


def _call_from_json(value: object) -> TextCall | None:
    if not isinstance(value, dict):
        return None
    if not any(key in value for key in _ARGUMENT_KEYS):
        return _ambiguous_call_from_json(value)
    if len(set(value) - _OTHER_KEYS) != 2:
        return None
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    arguments = next((value[key] for key in _ARGUMENT_KEYS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = parse_document(arguments)
        except (ValueError, RecursionError):
            return None
    return TextCall(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _ambiguous_call_from_json(value: Mapping[str, object]) -> TextCall | None:
    """Parse a call in which the tool's name is a value next to the arguments, as in `{"tool": "bash", "command":
    "ls"}`, or the only key, as in `{"bash": {"command": "ls"}}`."""
    if len(value) == 1:
        ((tool, nested),) = value.items()
        return TextCall(tool, nested, is_ambiguous=True) if isinstance(nested, dict) else None
    key = next((key for key in _NAME_KEYS[1:] if key in value), "")
    name = value.get(key)
    arguments = {argument: value[argument] for argument in value if argument != key and argument not in _OTHER_KEYS}
    return TextCall(name, arguments, is_ambiguous=True) if isinstance(name, str) and arguments else None


def skip_whitespace(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start
