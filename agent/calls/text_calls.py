"""Finds calls that a model has written into its text, since it does not know better or its server did not parse them.
Pure.

A reply is a call if it ends in one or more complete calls: objects with a name and arguments and nothing else, in a
fence, bare at the start of a line, in tags or in the markers of its model family. A reply that begins with calls may
continue in words.

Calls that the model only shows are not calls: an object among words or inside a longer code block, one with other
fields, one whose name is of no offered tool, and one that occurs, in any form, in what the model was shown, which makes
it a quotation.

A call that cannot be parsed becomes a call with a problem: it is answered, but never run. If a reply consists only
of calls, or its calls have known arguments, they count even if the tool does not exist; the model is told so, at most
twice. The same applies to a call in a fence between words: small models explain what they are about to do."""

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
"""Tagged calls in a shown text that are compared; if there are more, the reply counts as a quotation."""
MAX_NO_TOOL_NOTES = 2
"""How often the model is told that a tool does not exist; after that, its text is the answer."""
LONGER = 8
"""How much longer the same call may be in another form, with each character escaped."""

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
    """The reply with the calls in its text as real calls, removed from the text; unchanged if it already has calls,
    or contains none. `told`: everything that the model was shown and did not say itself; `parameters`: normalised
    argument names of the tools; `is_led`: a small model, which shows a call among words when it means to make it."""
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
    """Whether calls of unknown tools are still meant as calls, and the model was not already told twice."""
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
    """The reply with the first call between its words as one that does not run, unless the model was already told
    twice."""
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
    """The reply with the first call between its words. Later calls were written before its output was known, and
    often contain only placeholders."""
    first = found.calls[0]
    if not is_offered(first) or _is_quoted(replace(found, calls=(first,)), told()):
        return reply
    source = json.dumps(first.arguments, ensure_ascii=False)
    return _with(reply, found.words, ToolCall("call_text_1", first.name, first.arguments, source))


def _with_broken(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], told: Callable[[], Iterable[str]]
) -> Assistant:
    if (echoed := echo_in(reply.text)) and any(_normalise_text(echoed) in _normalise_text(text) for text in told()):
        return _with(reply, echoed)  # an output repeated in its own tags
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
    """Whether the calls occur in something that the model was shown: as written, as the same object, or in another
    form, ignoring line numbers, blanks and quotes."""
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
    """A text without what tools put before its lines: numbers, file names, diff and comment markers; and with HTML
    entities decoded."""
    yield _NUMBERS.sub("", told)
    yield _PREFIXES.sub("", told)
    if "&" in told:
        yield html.unescape(told)


def _shows_one(told: str, said: Iterable[tuple[str, str]], longest: int) -> bool:
    """Whether a call occurs in a text after a tag or marker, within `longest` characters."""
    for count, calls in enumerate(calls_behind_marks(told, longest)):
        if count == MAX_COMPARED_TEXTS:
            return True
        for call in calls:
            shown = call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False))
            if shown in said:
                return True
    return False


def _normalise_text(text: str) -> str:
    """A text without what varies between its forms: blanks, quotes, commas, escaped newlines, Python's `None`."""
    return _SIGNS.sub("", text).casefold().replace("none", "null")
