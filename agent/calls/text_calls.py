"""Calls that a model has written into its text, since it knows no better way or its server did not read them. Pure.

A reply is a call when it ends in one: behind whatever else it says stands nothing but whole calls, one after the
other, each an object with a name and arguments and nothing more, in a fence or bare at the beginning of a line, between
tags or in the marks of its family. A reply that begins with calls may go on in words. What the model only shows is
none: an object among words or inside a longer piece of code, one with other fields, one whose name is of no tool that
was offered, and one that stands in what the model was told, in whatever form: that is a quotation, whoever wanted it
made. Where a call stands that cannot be read, it is one with a problem: answered, never run.
"""

import html
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from agent.calls.call_forms import Found, WrittenCall, broken_in, calls_behind_marks, calls_in
from agent.messages import Assistant, Text, ToolCall
from tools.lazy import regex

MOST_TOLD = 1_000
"""Places of what the model was told that are compared; where there are more, what it says is taken as a quotation."""
LONGER = 8
"""How many times longer the same call is in other forms, each sign escaped, than as the model wrote it."""

_NUMBERS = regex(r"(?m)^[ \t]*\d+[\t:→|-]")
_PREFIXES = regex(r"(?m)^(?:[\w./-]+[:-]\d+[:-]|[ \t]*\d+[\t:→|-])?[+>|#*/ \t-]*")
_SIGNS = regex(r"\\+[ntr]?|[\s\"',`]+")


def with_text_calls(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    """The reply with the calls in its text as calls of its own, and without them in its text; the reply as it is where
    it has calls already, or none. `told`: all that the model was shown and did not say itself."""
    if reply.calls:
        return reply
    found = calls_in(reply.text)
    if found is None:
        return _with_broken(reply, is_offered, told)
    if not all(map(is_offered, found.calls)) or _is_quoted(found, told()):
        return reply
    calls = [
        ToolCall(f"call_text_{number}", call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False))
        for number, call in enumerate(found.calls, 1)
    ]
    return _with(reply, found.words, *calls)


def _with_broken(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    broken = broken_in(reply.text)
    if broken is None or not is_offered(WrittenCall(broken.name, {})):
        return reply
    written = _squeezed(broken.source)
    if any(written in _squeezed(plain) for text in told() for plain in _variants(text)):
        return reply
    return _with(reply, broken.words, ToolCall("call_text_1", broken.name, {}, broken.source, broken.problem))


def _with(reply: Assistant, words: str, *calls: ToolCall) -> Assistant:
    kept = [part for part in reply.parts if not isinstance(part, Text)]
    return replace(reply, parts=(*kept, *([Text(words)] if words else []), *calls))


def _is_quoted(found: Found, told: Iterable[str]) -> bool:
    """Whether what a model says stands in something that it was told: as it is written, as the same object, or as the
    same call in another form; numbers of lines, blanks and quotes aside."""
    written = _squeezed(found.source)
    said = [
        (call.name.casefold(), _squeezed(json.dumps(call.arguments, ensure_ascii=False)))
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
        for shown in (_squeezed(plain),)
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
        if count == MOST_TOLD:
            return True
        for call in calls:
            shown = call.name.casefold(), _squeezed(json.dumps(call.arguments, ensure_ascii=False))
            if shown in said:
                return True
    return False


def _squeezed(text: str) -> str:
    """A text without what its forms differ in: blanks, quotes, commas, written line ends, a word of Python."""
    return _SIGNS.sub("", text).casefold().replace("none", "null")
