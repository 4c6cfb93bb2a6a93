"""Calls that a model has written into its text, since it knows no better way or its server did not read them. Pure.

A reply is a call when it ends in one: behind whatever else it says stands nothing but whole calls, one after the
other, each an object with a name and arguments and nothing more, in a fence or bare at the beginning of a line, between
tags or in the marks of its family. A reply that begins with calls may go on in words. What the model only shows is
none: an object among words or inside a longer piece of code, one with other fields, one whose name is of no tool that
was offered, and one that stands in what the model was told, in whatever form: that is a quotation, whoever wanted it
made. Where a call stands that cannot be read, it is one with a problem: answered, never run. A reply that is nothing
but calls, or calls with arguments of ours, means them also where there is no tool of a name: it is told so, twice. So
is one that shows a call in a fence between words and makes none: small models explain what they mean to do.
"""

import html
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from ebbtide.agent.calls.call_forms import WrittenCall
from ebbtide.agent.calls.call_search import (
    EXAMPLE_CALL_ADVICE,
    NO_CALL,
    FoundCalls,
    broken_in,
    calls_behind_marks,
    calls_in,
    echo_in,
    example_calls_in,
    unread_in,
)
from ebbtide.agent.calls.tool_aliases import plain_name
from ebbtide.agent.context.tool_selection import NO_TOOL
from ebbtide.agent.messages import Assistant, Text, ToolCall
from ebbtide.tools.lazy import regex

MAX_COMPARED_TEXTS = 1_000
"""Places of what the model was told that are compared; where there are more, what it says is taken as a quotation."""
MAX_NO_TOOL_NOTES = 2
"""How often the model is told that there is no tool of a name; after that, what it says is its answer."""
LONGER = 8
"""How many times longer the same call is in other forms, each sign escaped, than as the model wrote it."""

_NUMBERS = regex(r"(?m)^[ \t]*\d+[\t:→|-]")
_PREFIXES = regex(r"(?m)^(?:[\w./-]+[:-]\d+[:-]|[ \t]*\d+[\t:→|-])?[+>|#*/ \t-]*")
_SIGNS = regex(r"\\+[ntr]?|[\s\"',`]+")


def with_text_calls(
    reply: Assistant,
    is_offered: Callable[[WrittenCall], bool],
    told: Callable[[], Iterable[str]],
    parameters: Callable[[], Collection[str]] = tuple,
    *,
    is_led: bool = False,
) -> Assistant:
    """The reply with the calls in its text as calls of its own, and without them in its text; the reply as it is where
    it has calls already, or none. `told`: all that the model was shown and did not say itself; `parameters`: the names
    of arguments that tools have, in small letters and nothing else; `is_led`: the model is a small one, which shows a
    call among words when it means to make it."""
    if reply.calls:
        return reply
    found = calls_in(reply.text)
    if found is None and (found := example_calls_in(reply.text)) is not None:
        return (_with_first if is_led else _with_example_call)(reply, found, is_offered, told)
    if found is None:
        return _with_broken(reply, is_offered, told)
    unknown = [call for call in found.calls if not is_offered(call)]
    if unknown and not _are_intended(unknown, found, told(), parameters()):
        return reply
    if _is_quoted(found, told()):
        return reply
    calls = [
        ToolCall(f"call_text_{number}", call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False))
        for number, call in enumerate(found.calls, 1)
    ]
    return _with(reply, found.words, *calls)


def _are_intended(
    unknown: Collection[WrittenCall], found: FoundCalls, told: Iterable[str], parameters: Collection[str]
) -> bool:
    """Whether calls that no tool is known for are calls all the same, and the model was not told of them twice."""
    if any(call.is_loose for call in unknown):
        return False
    if len(unknown) == len(found.calls) and found.words:
        names = {plain_name(name) for call in unknown for name in call.arguments}
        if names.isdisjoint(parameters):
            return False
    texts = list(told)
    return all(sum(text.count(NO_TOOL.format(call.name)) for text in texts) < MAX_NO_TOOL_NOTES for call in unknown)


def _with_example_call(
    reply: Assistant, found: FoundCalls, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    """The reply with the first call between its words as one that is not run, unless the model was told so twice."""
    texts = list(told())
    is_meant = (
        all(map(is_offered, found.calls)) and sum(text.count(EXAMPLE_CALL_ADVICE) for text in texts) < MAX_NO_TOOL_NOTES
    )
    if not is_meant or _is_quoted(found, texts):
        return reply
    call, source = found.calls[0], json.dumps(found.calls[0].arguments, ensure_ascii=False)
    return _with(reply, found.words, ToolCall("call_text_1", call.name, call.arguments, source, EXAMPLE_CALL_ADVICE))


def _with_first(
    reply: Assistant, found: FoundCalls, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    """The reply with the first call between its words. Those behind it were written before the model could see what
    the first one gives, and often hold nothing but words that stand for that."""
    first = found.calls[0]
    if not is_offered(first) or _is_quoted(replace(found, calls=(first,)), told()):
        return reply
    source = json.dumps(first.arguments, ensure_ascii=False)
    return _with(reply, found.words, ToolCall("call_text_1", first.name, first.arguments, source))


def _with_broken(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    if (echoed := echo_in(reply.text)) and any(_normalise_text(echoed) in _normalise_text(text) for text in told()):
        return _with(reply, echoed)  # what a call gave, said in the tags that it came in
    broken = broken_in(reply.text) or unread_in(reply.text)
    if broken is None or not (broken.is_all or is_offered(WrittenCall(broken.name, {}))):
        return reply
    if sum(text.count(NO_CALL) for text in told()) >= MAX_NO_TOOL_NOTES:
        return reply
    written = _normalise_text(broken.source)
    if any(written in _normalise_text(plain) for text in told() for plain in _variants(text)):
        return reply
    return _with(reply, broken.words, ToolCall("call_text_1", broken.name, {}, broken.source, broken.problem))


def _with(reply: Assistant, words: str, *calls: ToolCall) -> Assistant:
    kept = [part for part in reply.parts if not isinstance(part, Text)]
    return replace(reply, parts=(*kept, *([Text(words)] if words else []), *calls))


def _is_quoted(found: FoundCalls, told: Iterable[str]) -> bool:
    """Whether what a model says stands in something that it was told: as it is written, as the same object, or as the
    same call in another form; numbers of lines, blanks and quotes aside."""
    written = _normalise_text(found.source)
    said = [
        (call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False)))
        for call in found.calls
        if call.arguments
    ]
    longest = LONGER * len(found.source) + 1_000
    return bool(said) and any(
        written in shown
        or any(name in shown and arguments in shown for name, arguments in said)
        or _shows_one(plain, said, longest)
        for text in told
        for plain in _variants(text)
        for shown in (_normalise_text(plain),)
    )


def _variants(told: str) -> Iterator[str]:
    """What stands in a text, without what tools put before its lines: numbers, names of files, the signs of a diff and
    of a comment; and as a browser would show it."""
    yield _NUMBERS.sub("", told)
    yield _PREFIXES.sub("", told)
    if "&" in told:
        yield html.unescape(told)


def _shows_one(told: str, said: Iterable[tuple[str, str]], longest: int) -> bool:
    """Whether a call stands in a text behind a tag or a mark, in so many characters at most."""
    for count, calls in enumerate(calls_behind_marks(told, longest)):
        if count == MAX_COMPARED_TEXTS:
            return True
        for call in calls:
            shown = call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False))
            if shown in said:
                return True
    return False


def _normalise_text(text: str) -> str:
    """A text without what its forms differ in: blanks, quotes, commas, written line ends, a word of Python."""
    return _SIGNS.sub("", text).casefold().replace("none", "null")
