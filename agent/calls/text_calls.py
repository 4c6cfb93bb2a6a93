"""Calls that a model has written into its text, since it knows no better way or its server did not read them. Pure.

A reply is a call when it ends in one: behind whatever else it says stands nothing but whole calls, one after the
other, each an object with a name and arguments and nothing more, in a fence or bare at the beginning of a line, between
tags or as harmony has it. A reply that begins with calls may go on in words. What the model only shows is none: an
object among words or inside a longer piece of code, one with other fields, one whose name is of no tool that was
offered, and one that stands, blanks aside, in what the model was told: that is a quotation, whoever wanted it made.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent.messages import Assistant, Text, ToolCall
from tools.lazy import dataclass, regex
from tools.schema import DEEPEST, is_nested

MOST_STARTS = 100
"""Places of a text at which calls are looked for."""

_FENCE = regex(r"[ \t]*(`{3,}|~{3,})[\w-]*[ \t]*\n")
_OPEN = regex(r"<(tool_call|function_call|tool_calls|tools|tool_use)>\s*")
_LIST = regex(r"\[TOOL_CALLS\]\s*")
_FUNCTION = regex(r"<function=([\w.-]+)>\s*")
_PARAMETER = regex(r"<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>\s*", re.DOTALL)
_HARMONY = regex(
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)?\s*to=(?:functions\.)?([\w.-]+)[^{<]*(?:<\|[a-z]+\|>[^{<]*)*"
)
_HARMONY_END = regex(r"\s*<\|(?:call|end|return)\|>")
_STARTS = regex(
    r"^[ \t]*(?:(?:`{3,}|~{3,})[\w-]*[ \t]*\n\s*[\[{]|[\[{])|<(?:tool_calls?|function_call|tools|tool_use)>|"
    r"\[TOOL_CALLS\]|<function=|<\|start\|>assistant\s*to=|(?:<\|start\|>assistant)?<\|channel\|>\w+\s*to=",
    re.MULTILINE,
)
_NUMBERS = regex(r"(?m)^\s*\d+[\t:→|-]")
_BLANKS = regex(r"[\s\\]+")
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")
_BESIDE = {"id", "type", "tool_call_id"}
_JSON = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    name: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Found:
    """What is in a text besides words."""

    calls: tuple[WrittenCall, ...]
    words: str
    """The rest of the text."""


def with_text_calls(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    """The reply with the calls in its text as calls of its own, and without them in its text; the reply as it is where
    it has calls already, or none. `told`: all that the model was shown and did not say itself."""
    if reply.calls or (found := calls_in(reply.text)) is None or not all(map(is_offered, found.calls)):
        return reply
    if _is_quoted(found.calls, told()):
        return reply
    kept = [part for part in reply.parts if not isinstance(part, Text)]
    words = [Text(found.words)] if found.words else []
    calls = [
        ToolCall(f"call_text_{number}", call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False))
        for number, call in enumerate(found.calls, 1)
    ]
    return Assistant((*kept, *words, *calls), reply.model)


def calls_in(text: str) -> Found | None:
    """The calls that a text ends in, or that it begins with, and its words; None where it does neither."""
    starts = [match.start() for match, _ in zip(_STARTS.finditer(text), range(MOST_STARTS), strict=False)]
    for start in starts:
        before = text[:start]
        if before.count("```") % 2:
            continue
        calls, end = _run(text, start)
        rest = text[end:]
        if not calls:
            continue
        if rest.strip() and (before.strip() or not _is_words(rest)):
            return None
        return Found(tuple(calls), before.strip() or rest.strip())
    return None


def _is_words(text: str) -> bool:
    """Whether nothing in a text could be a call, or a piece of code."""
    return _STARTS.search(text) is None and "```" not in text


def _run(text: str, start: int) -> tuple[list[WrittenCall], int]:
    """The calls that follow one another from a place on, and where they end."""
    calls = list[WrittenCall]()
    while (found := _block(text, _behind_blanks(text, start))) is not None:
        calls += found[0]
        start = found[1]
    return calls, start


def _block(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls of one piece of a text, and where it ends."""
    if (fence := _FENCE.match(text, start)) is not None:
        return _closed(_objects(text, fence.end()), text, fence[1])
    if (tag := _OPEN.match(text, start)) is not None:
        inner = _function(text, tag.end()) or _objects(text, tag.end())
        return _closed(inner, text, f"</{tag[1]}>")
    if (mark := _LIST.match(text, start)) is not None:
        return _objects(text, mark.end())
    if (head := _HARMONY.match(text, start)) is not None:
        return _harmony(text, head)
    return _function(text, start) or _objects(text, start)


def _closed(found: tuple[list[WrittenCall], int] | None, text: str, end: str) -> tuple[list[WrittenCall], int] | None:
    """The same with what closes the piece, or at the end of the text; nothing where something else follows."""
    if found is None:
        return None
    place = _behind_blanks(text, found[1])
    if text.startswith(end, place):
        return found[0], place + len(end)
    return (found[0], place) if place == len(text) else None


def _objects(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """The calls of JSON values that follow one another; None where one of them is no call."""
    calls = list[WrittenCall]()
    end = start
    while (place := _behind_blanks(text, end)) < len(text) and text[place] in "[{":
        try:
            value, end = _JSON.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        found = None if is_nested(value, DEEPEST) else list(_calls_of(value))
        if not found or None in found:
            return None
        calls += [call for call in found if call is not None]
    return (calls, end) if calls else None


def _function(text: str, start: int) -> tuple[list[WrittenCall], int] | None:
    """`<function=NAME>` with parameters between tags, or with an object."""
    head = _FUNCTION.match(text, start)
    if head is None:
        return None
    arguments, end = dict[str, object](), head.end()
    while (parameter := _PARAMETER.match(text, end)) is not None:
        arguments[parameter[1]], end = parameter[2], parameter.end()
    if not arguments and text.startswith("{", end):
        try:
            arguments, end = _JSON.raw_decode(text, end)
        except (ValueError, RecursionError):
            return None
    return _closed(([WrittenCall(head[1], arguments)], end), text, "</function>")


def _harmony(text: str, head: re.Match[str]) -> tuple[list[WrittenCall], int] | None:
    try:
        arguments, end = _JSON.raw_decode(text, head.end())
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict) or is_nested(arguments, DEEPEST):
        return None
    close = _HARMONY_END.match(text, end)
    return [WrittenCall(head[1], arguments)], close.end() if close else end


def _calls_of(value: Any) -> Iterator[WrittenCall | None]:  # noqa: ANN401  # any JSON
    """The calls that a value stands for; None for what is none."""
    if isinstance(value, list):
        for item in value:
            yield from _calls_of(item)
        return
    if isinstance(value, dict) and set(value) == {"tool_calls"} and isinstance(value["tool_calls"], list):
        yield from _calls_of(value["tool_calls"])
        return
    if isinstance(value, dict) and isinstance(value.get("function"), dict) and set(value) - _BESIDE == {"function"}:
        value = value["function"]
    yield _call_of(value)


def _call_of(value: object) -> WrittenCall | None:
    if not isinstance(value, dict) or len(set(value) - _BESIDE) != 2:
        return None
    name = next((value[key] for key in _NAMES if key in value), None)
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments, strict=False)
        except (ValueError, RecursionError):
            return None
    return WrittenCall(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None


def _behind_blanks(text: str, start: int) -> int:
    while start < len(text) and text[start].isspace():
        start += 1
    return start


def _is_quoted(calls: Iterable[WrittenCall], told: Iterable[str]) -> bool:
    """Whether what a call says stands in something that the model was told, numbers of lines and blanks aside."""
    said = [(call.name, _squeezed(json.dumps(call.arguments, ensure_ascii=False))) for call in calls if call.arguments]
    shown = [_squeezed(_NUMBERS.sub("", text)) for text in told]
    return any(name in text and arguments in text for name, arguments in said for text in shown)


def _squeezed(text: str) -> str:
    return _BLANKS.sub("", text)
