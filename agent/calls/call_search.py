"""Finds calls in a model's text: at its end or beginning, among words, or broken. Pure."""

import json
import re
from collections.abc import Iterator
from dataclasses import field

from ebbtide.agent.calls.call_forms import CALL_MARKS, CODE_HEAD, OPEN, WrittenCall, behind_blanks, block_at, marked_at
from ebbtide.agent.providers.loose_json import read_value
from ebbtide.tools.lazy import dataclass, regex

MOST_STARTS = 100
"""Positions in a text that are tried."""

_ANSWER = regex(r"<((?:tool|function)_(?:response|result|output)s?|observation)>")
"""Tags around the output of a call, which a model should never write."""
_LINE = rf"[\[{{]|{CODE_HEAD}"
_STARTS = regex(
    rf"^[ \t]*(?:(?:`{{3,}}|~{{3,}})[\w-]*\s*(?:{_LINE}|{CALL_MARKS})|{_LINE}|Action:[^\n]*\n\s*Action Input:)"
    rf"|{CALL_MARKS}",
    re.MULTILINE,
)
_MARKED_STARTS = regex(CALL_MARKS)
_BROKEN_CALL = regex(
    rf"\s*(?:(?:`{{3,}}|~{{3,}})[\w-]*\s*)?(?:{CALL_MARKS})?\s*\{{\s*[\"'](?:name|tool|tool_name|function|action)[\"']\s*:"
    r"\s*[\"']([\w.-]+)[\"']\s*,\s*[\"'](?:arguments|parameters|args|input|tool_input|action_input)[\"']\s*:\s*\{"
)
_NEAR = 30
"""Characters shown on each side of a parse error."""
UNNAMED_TOOL = "tool"
"""The tool name of a call without a name."""
NO_CALL = (
    'what stands there is no call: write {"name": NAME, "arguments": {...}} with the name of a tool that there is, and '
    "arguments that it has"
)
EXAMPLE_CALL_ADVICE = (
    "words stand before it and behind it, so it may be an example: if it is to be made, send it again alone, without "
    "words"
)
_NAME_FIELD = regex(r"\"name\"\s*:\s*\"([\w.-]{1,80})\"")
_ADVICE = 'write a quote inside a string as \\", close each brace once, and send the whole call again'


@dataclass(frozen=True, slots=True)
class FoundCalls:
    """The calls found in a text."""

    calls: tuple[WrittenCall, ...]
    words: str
    """The rest of the text."""
    source: str = field(default="", compare=False)
    """The calls as written."""


@dataclass(frozen=True, slots=True)
class BrokenCall:
    """A call that cannot be parsed."""

    name: str
    source: str
    words: str
    problem: str
    is_all: bool = False
    """Whether it is the whole text, inside tags that only calls have."""


def calls_in(text: str) -> FoundCalls | None:
    """The calls at the end or beginning of a text, and its words; None if there are none."""
    for start in _starts(text):
        calls, end = _consecutive_calls(text, start)
        rest = text[end:]
        if not calls:
            continue
        before = text[:start].strip()
        if rest.strip() and (before or not _is_words(rest)):
            return None
        return FoundCalls(tuple(calls), before or rest.strip(), text[start:end])
    return None


def broken_in(text: str) -> BrokenCall | None:
    """A call at the end of the text whose name can be read, but whose arguments cannot be parsed."""
    if text.rstrip()[-1:] not in ("}", "]", ">", "`"):
        return None
    for start in _starts(text):
        head = _BROKEN_CALL.match(text, start)
        if head is None:
            continue
        place = text.index("{", start)
        try:
            _, end = read_value(text, place)
            if text[end:].lstrip()[:1] not in ("}", "]"):
                return None
            error = json.JSONDecodeError("Extra data", text, end)
        except json.JSONDecodeError as found:
            error = found
        near = text[max(error.pos - _NEAR, place) : error.pos + _NEAR]
        problem = f"it is not valid JSON ({error.msg}) near `{near}`: {_ADVICE}"
        return BrokenCall(head[1], text[start:].strip(), text[:start].strip(), problem)
    return None


def example_calls_in(text: str) -> FoundCalls | None:
    """The first calls in a fence or after a marker with words on both sides, and these words."""
    for start in _starts(text):
        calls, end = _consecutive_calls(text, start)
        words = text[:start].strip(), text[end:].strip()
        if calls and all(words):
            is_marked = text[start:].lstrip(" \t").startswith(("`", "~", "<"))
            return FoundCalls(tuple(calls), "\n\n".join(words), text[start:end].strip()) if is_marked else None
    return None


def unread_in(text: str) -> BrokenCall | None:
    """A text inside the tags of a call that is not a call, such as a tool definition, or inside the tags of an
    output."""
    written = text.strip()
    tag = OPEN.match(written) or _ANSWER.match(written)
    if tag is None or not written.endswith(f"</{tag[1]}>") or calls_in(text) is not None:
        return None
    name = _NAME_FIELD.search(written)
    return BrokenCall(name[1] if name is not None else UNNAMED_TOOL, written, "", NO_CALL, is_all=True)


def echo_in(text: str) -> str:
    """The content of a text that consists of an output's tags; else empty."""
    written = text.strip()
    tag = _ANSWER.match(written)
    ends = tag is not None and written.endswith(f"</{tag[1]}>")
    return written[tag.end() : -len(tag[1]) - 3].strip() if tag is not None and ends else ""


def calls_behind_marks(text: str, longest: int) -> Iterator[list[WrittenCall]]:
    """The calls after each tag or marker of a text, each parsed from at most `longest` characters; often none."""
    for match in _MARKED_STARTS.finditer(text):
        found = marked_at(text[match.start() : match.start() + longest], 0)
        yield found[0] if found is not None else []


def _starts(text: str) -> Iterator[int]:
    """The first positions where a call may begin, except inside code blocks."""
    for match, _ in zip(_STARTS.finditer(text), range(MOST_STARTS), strict=False):
        if text.count("```", 0, match.start()) % 2 == 0:
            yield match.start()


def _is_words(text: str) -> bool:
    """Whether a text contains neither a possible call nor a code block."""
    return _STARTS.search(text) is None and "```" not in text


def _consecutive_calls(text: str, start: int) -> tuple[list[WrittenCall], int]:
    """The consecutive calls from a position, and their end."""
    calls = list[WrittenCall]()
    while (found := block_at(text, behind_blanks(text, start))) is not None:
        calls += found[0]
        start = found[1]
    return calls, start
