"""Finds calls that a model has written into its text, because it was not trained to make calls or because its server
did not parse them. Pure.

A reply contains calls if it ends in one or more complete calls: objects that have only a name and arguments, in a
fence, bare at the start of a line, in tags, or in the markers of the model family. If a reply begins with calls, prose
may follow.

These are not calls, because the model only shows them: an object within prose or inside a longer code block, an object
with other fields, an object that names no offered tool, and an object that occurs, in any form, in text that the model
was shown.

A call that cannot be parsed becomes a call with a problem, which is answered but never run. Calls of tools that do not
exist are answered with that problem, at most twice, if the reply consists only of calls or if the calls have known
arguments. Calls in a fence between prose are treated the same way, because small models explain what they are about to
do.
"""

import html
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from ebbtide.agent.integrations.small_models.call_forms import WrittenCall
from ebbtide.agent.integrations.small_models.call_search import (
    EXAMPLE_CALL_ADVICE,
    NOT_A_CALL_ADVICE,
    FoundCalls,
    calls_after_markers,
    echoed_output,
    find_broken_call,
    find_calls,
    find_example_calls,
    find_unreadable_call,
)
from ebbtide.agent.messages import Assistant, Text, ToolCall
from ebbtide.agent.tool_specs import NO_TOOL
from ebbtide.tools.foreign_calls import normalised_name
from ebbtide.tools.lazy import regex

MAX_COMPARED_CALLS = 1_000
"""Maximum number of tagged calls in a shown text that are compared; if there are more, the reply counts as a
quotation."""
MAX_NO_TOOL_NOTES = 2
"""Maximum number of notes to the model that a tool does not exist; after that, its text is the answer."""
MAX_LENGTH_RATIO = 8
"""How many times longer the same call can be in another form, for example with every character escaped."""

_LINE_NUMBERS = regex(r"(?m)^[ \t]*\d+[\t:→|-]")
_LINE_PREFIXES = regex(r"(?m)^(?:[\w./-]+[:-]\d+[:-]|[ \t]*\d+[\t:→|-])?[+>|#*/ \t-]*")
_VARYING_CHARS = regex(r"\\+[ntr]?|[\s\"',`]+")


def with_text_calls(
    reply: Assistant,
    is_offered: Callable[[WrittenCall], bool],
    seen_texts: Callable[[], Iterable[str]],
    parameters: Callable[[], Collection[str]] = tuple,
    *,
    is_small_model: bool = False,
) -> Assistant:
    """Return the reply with the calls in its text converted to real calls and removed from the text; the same reply if
    it already has calls or contains none. `seen_texts` returns everything that the model was shown and did not write
    itself. `parameters` returns the normalised argument names of the tools. A small model shows a call within prose if
    it means to make it."""
    if reply.calls:
        return reply
    found = find_calls(reply.text)
    if found is None and (found := find_example_calls(reply.text)) is not None:
        return (_with_first_call if is_small_model else _with_example_call)(reply, found, is_offered, seen_texts)
    if found is None:
        return _with_broken_call(reply, is_offered, seen_texts)
    unknown = [call for call in found.calls if not is_offered(call)]
    if unknown and not _are_intended(unknown, found, seen_texts(), parameters()):
        return reply
    if _is_quoted(found, seen_texts()):
        return reply
    calls = [
        ToolCall(f"call_text_{number}", call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False))
        for number, call in enumerate(found.calls, 1)
    ]
    return _with_text_and_calls(reply, found.remaining_text, *calls)


def _are_intended(
    unknown: Collection[WrittenCall], found: FoundCalls, seen_texts: Iterable[str], parameters: Collection[str]
) -> bool:
    """Whether calls of unknown tools are meant as calls, and the model has been notified less than twice that the tools
    do not exist."""
    if any(call.is_ambiguous for call in unknown):
        return False
    if len(unknown) == len(found.calls) and found.remaining_text:
        names = {normalised_name(name) for call in unknown for name in call.arguments}
        if names.isdisjoint(parameters):
            return False
    texts = list(seen_texts)
    return all(sum(text.count(NO_TOOL.format(call.name)) for text in texts) < MAX_NO_TOOL_NOTES for call in unknown)


def _with_example_call(
    reply: Assistant,
    found: FoundCalls,
    is_offered: Callable[[WrittenCall], bool],
    seen_texts: Callable[[], Iterable[str]],
) -> Assistant:
    """Return the reply with the first call between prose as a call that is answered with advice but not run. After two
    such answers, the reply is returned unchanged."""
    texts = list(seen_texts())
    is_intended = (
        all(map(is_offered, found.calls)) and sum(text.count(EXAMPLE_CALL_ADVICE) for text in texts) < MAX_NO_TOOL_NOTES
    )
    if not is_intended or _is_quoted(found, texts):
        return reply
    call, source = found.calls[0], json.dumps(found.calls[0].arguments, ensure_ascii=False)
    return _with_text_and_calls(
        reply, found.remaining_text, ToolCall("call_text_1", call.name, call.arguments, source, EXAMPLE_CALL_ADVICE)
    )


def _with_first_call(
    reply: Assistant,
    found: FoundCalls,
    is_offered: Callable[[WrittenCall], bool],
    seen_texts: Callable[[], Iterable[str]],
) -> Assistant:
    """Return the reply with the first call between prose as a real call. Later calls were written before its output was
    known, and often contain only placeholders."""
    first = found.calls[0]
    if not is_offered(first) or _is_quoted(replace(found, calls=(first,)), seen_texts()):
        return reply
    source = json.dumps(first.arguments, ensure_ascii=False)
    return _with_text_and_calls(
        reply, found.remaining_text, ToolCall("call_text_1", first.name, first.arguments, source)
    )


def _with_broken_call(
    reply: Assistant, is_offered: Callable[[WrittenCall], bool], seen_texts: Callable[[], Iterable[str]]
) -> Assistant:
    if (echoed := echoed_output(reply.text)) and any(
        _normalise_text(echoed) in _normalise_text(text) for text in seen_texts()
    ):
        return _with_text_and_calls(reply, echoed)  # an output repeated in its own tags
    broken = find_broken_call(reply.text) or find_unreadable_call(reply.text)
    if broken is None or not (broken.is_whole_text or is_offered(WrittenCall(broken.name, {}))):
        return reply
    if sum(text.count(NOT_A_CALL_ADVICE) for text in seen_texts()) >= MAX_NO_TOOL_NOTES:
        return reply
    source = _normalise_text(broken.source)
    if any(source in _normalise_text(plain) for text in seen_texts() for plain in _text_variants(text)):
        return reply
    return _with_text_and_calls(
        reply, broken.remaining_text, ToolCall("call_text_1", broken.name, {}, broken.source, broken.problem)
    )


def _with_text_and_calls(reply: Assistant, text: str, *calls: ToolCall) -> Assistant:
    other_parts = [part for part in reply.parts if not isinstance(part, Text)]
    return replace(reply, parts=(*other_parts, *([Text(text)] if text else []), *calls))


def _is_quoted(found: FoundCalls, seen_texts: Iterable[str]) -> bool:
    """Whether the calls occur in text that the model was shown: as written, as the same object, or in another form,
    ignoring line numbers, blanks and quotes."""
    source = _normalise_text(found.source)
    signatures = [
        (call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False)))
        for call in found.calls
        if call.arguments
    ]
    max_chars = MAX_LENGTH_RATIO * len(found.source) + 1_000
    return bool(signatures) and any(
        source in seen
        or any(name in seen and arguments in seen for name, arguments in signatures)
        or _contains_call(plain, signatures, max_chars)
        for text in seen_texts
        for plain in _text_variants(text)
        for seen in (_normalise_text(plain),)
    )


def _text_variants(text: str) -> Iterator[str]:
    """Yield variants of a text: without line numbers, without all line prefixes (line numbers, file names, diff and
    comment markers), and with HTML entities decoded."""
    yield _LINE_NUMBERS.sub("", text)
    yield _LINE_PREFIXES.sub("", text)
    if "&" in text:
        yield html.unescape(text)


def _contains_call(text: str, signatures: Iterable[tuple[str, str]], max_chars: int) -> bool:
    """Whether a call occurs in a text after a tag or marker, within `max_chars` characters."""
    for count, calls in enumerate(calls_after_markers(text, max_chars)):
        if count == MAX_COMPARED_CALLS:
            return True
        for call in calls:
            signature = call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False))
            if signature in signatures:
                return True
    return False


def _normalise_text(text: str) -> str:
    """Return a text without the differences between forms of a call: blanks, quotes, commas, escaped newlines, case,
    and `None` in Python for `null`."""
    return _VARYING_CHARS.sub("", text).casefold().replace("none", "null")
