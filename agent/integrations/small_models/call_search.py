"""Finds calls in a model's text: at its end or beginning, between prose, or malformed. No I/O."""

import json
import re
from collections.abc import Iterator
from dataclasses import field

from ebbtide.agent.integrations.small_models.call_forms import (
    CALL_MARKERS,
    CODE_CALL_START,
    OPENING_TAG,
    TextCall,
    parse_call_block,
    parse_marked_calls,
    skip_whitespace,
)
from ebbtide.agent.providers.loose_json import parse_value
from ebbtide.tools.lazy import dataclass, regex

MAX_TRIED_OFFSETS = 100
"""Maximum number of offsets at which a call is searched for."""

_OUTPUT_TAG = regex(r"<((?:tool|function)_(?:response|result|output)s?|observation)>")
"""Tags around the output of a call, which a model should never write."""
_CALL_START = rf"[\[{{]|{CODE_CALL_START}"
_POSSIBLE_START = regex(
    rf"^[ \t]*(?:(?:`{{3,}}|~{{3,}})[\w-]*\s*(?:{_CALL_START}|{CALL_MARKERS})"
    rf"|{_CALL_START}|Action:[^\n]*\n\s*Action Input:)"
    rf"|{CALL_MARKERS}",
    re.MULTILINE,
)
_MARKED_START = regex(CALL_MARKERS)
_BROKEN_CALL = regex(
    rf"\s*(?:(?:`{{3,}}|~{{3,}})[\w-]*\s*)?(?:{CALL_MARKERS})?\s*\{{\s*[\"'](?:name|tool|tool_name|function|action)[\"']\s*:"
    r"\s*[\"']([\w.-]+)[\"']\s*,\s*[\"'](?:arguments|parameters|args|input|tool_input|action_input)[\"']\s*:\s*\{"
)
_ERROR_CONTEXT_CHARS = 30
"""Characters shown on each side of a parse error."""
UNNAMED_TOOL = "tool"
"""Tool name for a call that has none."""
NOT_A_CALL_ADVICE = (
    'this is not a valid call: write {"name": NAME, "arguments": {...}} with the name of an existing tool and with '
    "arguments that it takes"
)
EXAMPLE_CALL_ADVICE = (
    "there is text before and after it, so it may be only an example: to make this call, send it again alone, without "
    "other text"
)
_NAME_FIELD = regex(r"\"name\"\s*:\s*\"([\w.-]{1,80})\"")
_INVALID_JSON_ADVICE = 'write a quote inside a string as \\", close each brace once, and send the whole call again'


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """The calls found in text."""

    calls: tuple[TextCall, ...]
    remaining_text: str
    """The text without the calls."""
    source: str = field(default="", compare=False)
    """The text of the calls as written."""


@dataclass(frozen=True, slots=True)
class InvalidCall:
    """A call that cannot be parsed."""

    name: str
    source: str
    remaining_text: str
    problem: str
    is_whole_text: bool = False
    """Whether the text contains only this call, in the tags of a call or output."""


def find_calls(text: str) -> FoundCalls | None:
    """Find the calls at the end or beginning of text."""
    for start in _possible_starts(text):
        calls, end = _consecutive_calls(text, start)
        text_after = text[end:]
        if not calls:
            continue
        text_before = text[:start].strip()
        if text_after.strip() and (text_before or not _is_prose(text_after)):
            return None
        return FoundCalls(tuple(calls), text_before or text_after.strip(), text[start:end])
    return None


def find_call_with_invalid_arguments(text: str) -> InvalidCall | None:
    """Find a call at the end of text whose name can be read but whose arguments cannot be parsed."""
    if text.rstrip()[-1:] not in ("}", "]", ">", "`"):
        return None
    for start in _possible_starts(text):
        match = _BROKEN_CALL.match(text, start)
        if match is None:
            continue
        json_start = text.index("{", start)
        try:
            _, end = parse_value(text, json_start)
            if text[end:].lstrip()[:1] not in ("}", "]"):
                return None
            error = json.JSONDecodeError("Extra data", text, end)
        except json.JSONDecodeError as decode_error:
            error = decode_error
        excerpt = text[max(error.pos - _ERROR_CONTEXT_CHARS, json_start) : error.pos + _ERROR_CONTEXT_CHARS]
        problem = f"it is not valid JSON ({error.msg}) near `{excerpt}`: {_INVALID_JSON_ADVICE}"
        return InvalidCall(match[1], text[start:].strip(), text[:start].strip(), problem)
    return None


def find_example_calls(text: str) -> FoundCalls | None:
    """Find the first calls that have text before and after them. Only calls in a code fence or after a marker such as
    `<tool_call>` count."""
    for start in _possible_starts(text):
        calls, end = _consecutive_calls(text, start)
        surrounding = text[:start].strip(), text[end:].strip()
        if calls and all(surrounding):
            is_marked = text[start:].lstrip(" \t").startswith(("`", "~", "<"))
            return FoundCalls(tuple(calls), "\n\n".join(surrounding), text[start:end].strip()) if is_marked else None
    return None


def find_tags_without_call(text: str) -> InvalidCall | None:
    """Find call tags around something that is not a call, such as a tool definition, or around the whole output of a
    call. None if the text is not enclosed in such tags."""
    stripped_text = text.strip()
    tag = OPENING_TAG.match(stripped_text) or _OUTPUT_TAG.match(stripped_text)
    if tag is None or not stripped_text.endswith(f"</{tag[1]}>") or find_calls(text) is not None:
        return None
    name_match = _NAME_FIELD.search(stripped_text)
    return InvalidCall(
        name_match[1] if name_match is not None else UNNAMED_TOOL,
        stripped_text,
        "",
        NOT_A_CALL_ADVICE,
        is_whole_text=True,
    )


def extract_echoed_output(text: str) -> str:
    """If the whole text is enclosed in an output's tags, return what is inside; otherwise an empty string."""
    stripped_text = text.strip()
    tag = _OUTPUT_TAG.match(stripped_text)
    is_closed = tag is not None and stripped_text.endswith(f"</{tag[1]}>")
    return stripped_text[tag.end() : -len(tag[1]) - 3].strip() if tag is not None and is_closed else ""


def calls_after_markers(text: str, max_chars: int) -> Iterator[list[TextCall]]:
    """Parse the calls after each tag or marker, in at most `max_chars` characters. Yields one list per marker, often an
    empty one."""
    for match in _MARKED_START.finditer(text):
        parsed = parse_marked_calls(text[match.start() : match.start() + max_chars], 0)
        yield parsed.calls if parsed is not None else []


def _possible_starts(text: str) -> Iterator[int]:
    """Yield the first offsets at which a call may begin, except inside code blocks."""
    for match, _ in zip(_POSSIBLE_START.finditer(text), range(MAX_TRIED_OFFSETS), strict=False):
        if text.count("```", 0, match.start()) % 2 == 0:
            yield match.start()


def _is_prose(text: str) -> bool:
    """Whether text contains neither a possible call nor a code block."""
    return _POSSIBLE_START.search(text) is None and "```" not in text


def _consecutive_calls(text: str, start: int) -> tuple[list[TextCall], int]:
    """Parse the consecutive calls from `start` on. Also return the offset after them."""
    calls = list[TextCall]()
    while (parsed := parse_call_block(text, skip_whitespace(text, start))) is not None:
        calls += parsed.calls
        start = parsed.end
    return calls, start
