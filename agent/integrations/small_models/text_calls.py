"""Finds calls that a model has written into its text, because it was not trained to make calls or because its server
did not parse them. No I/O.

A reply contains calls if it ends in one or more complete calls: objects that have only a name and arguments, in a
fence, bare at the start of a line, in tags, or in the markers of the model family. If a reply begins with calls, prose
may follow.

Some objects are only shown and do not count as calls: an object within prose or inside a longer code block, one with
other fields, one that does not name an offered tool, and one that occurs, in any form, in text that the model was
shown.

A call that cannot be parsed becomes a call with a problem: it is answered but never run. A call to a tool that does not
exist is also answered with a problem, at most twice, if the reply consists only of calls or if the arguments are known.
A fenced call between prose gets such an answer too, because small models explain what they are about to do.
"""

import html
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from ebbtide.agent.integrations.small_models.call_forms import TextCall
from ebbtide.agent.integrations.small_models.call_search import (
    EXAMPLE_CALL_ADVICE,
    NOT_A_CALL_ADVICE,
    FoundCalls,
    calls_after_markers,
    extract_echoed_output,
    find_call_with_invalid_arguments,
    find_calls,
    find_example_calls,
    find_tags_without_call,
)
from ebbtide.agent.messages import Assistant, Text, ToolCall
from ebbtide.agent.tool_specs import UNKNOWN_TOOL_ERROR
from ebbtide.tools.call_arguments.foreign_calls import normalise_name
from ebbtide.tools.lazy import regex

MAX_COMPARED_CALLS = 1_000
"""Maximum number of tagged calls that are compared in text shown to the model; if there are more, the reply counts as a
quotation."""
MAX_REPEATED_ADVICE = 2
"""Maximum number of times that the model is told that a tool does not exist. After that, its reply counts as an
answer."""
MAX_LENGTH_RATIO = 8
"""How many times longer a call may be in another form, for example with every character escaped."""

_LINE_NUMBERS = regex(r"(?m)^[ \t]*\d+[\t:→|-]")
_LINE_PREFIXES = regex(r"(?m)^(?:[\w./-]+[:-]\d+[:-]|[ \t]*\d+[\t:→|-])?[+>|#*/ \t-]*")
_IGNORED_CHARS = regex(r"\\+[ntr]?|[\s\"',`]+")


def convert_text_calls(
    reply: Assistant,
    is_offered: Callable[[TextCall], bool],
    get_seen_texts: Callable[[], Iterable[str]],
    get_parameter_names: Callable[[], Collection[str]] = tuple,
    *,
    is_small_model: bool = False,
) -> Assistant:
    """Convert the calls in a reply's text to real calls, and remove them from the text. Returns the same reply if it
    already has calls or contains none.

    `get_seen_texts`: returns everything that the model was shown and did not write itself. `get_parameter_names`:
    returns the normalised argument names of the tools. `is_small_model`: the model means to make the calls that it
    shows within prose.
    """
    if reply.calls:
        return reply
    found_calls = find_calls(reply.text)
    if found_calls is None and (found_calls := find_example_calls(reply.text)) is not None:
        return (_with_first_call if is_small_model else _refuse_example_call)(
            reply, found_calls, is_offered, get_seen_texts
        )
    if found_calls is None:
        return _with_invalid_call(reply, is_offered, get_seen_texts)
    unknown_calls = [call for call in found_calls.calls if not is_offered(call)]
    if unknown_calls and not _are_meant_as_calls(unknown_calls, found_calls, get_seen_texts(), get_parameter_names()):
        return reply
    if _is_quoted(found_calls, get_seen_texts()):
        return reply
    calls = [
        ToolCall(f"call_text_{index}", call.name, call.arguments, json.dumps(call.arguments, ensure_ascii=False))
        for index, call in enumerate(found_calls.calls, 1)
    ]
    return _with_text_and_calls(reply, found_calls.remaining_text, *calls)


def _are_meant_as_calls(
    unknown_calls: Collection[TextCall],
    found_calls: FoundCalls,
    seen_texts: Iterable[str],
    parameter_names: Collection[str],
) -> bool:
    """Whether calls of unknown tools are meant as calls. False once the model has been told `MAX_REPEATED_ADVICE` times
    that a tool does not exist."""
    if any(call.is_ambiguous for call in unknown_calls):
        return False
    if len(unknown_calls) == len(found_calls.calls) and found_calls.remaining_text:
        names = {normalise_name(name) for call in unknown_calls for name in call.arguments}
        if names.isdisjoint(parameter_names):
            return False
    texts = list(seen_texts)
    return all(
        sum(text.count(UNKNOWN_TOOL_ERROR.format(call.name)) for text in texts) < MAX_REPEATED_ADVICE
        for call in unknown_calls
    )


def _refuse_example_call(
    reply: Assistant,
    found_calls: FoundCalls,
    is_offered: Callable[[TextCall], bool],
    get_seen_texts: Callable[[], Iterable[str]],
) -> Assistant:
    """Turn the first call between prose into a call that is answered with advice but not run. After two such answers,
    the reply stays unchanged."""
    texts = list(get_seen_texts())
    is_intended = (
        all(map(is_offered, found_calls.calls))
        and sum(text.count(EXAMPLE_CALL_ADVICE) for text in texts) < MAX_REPEATED_ADVICE
    )
    if not is_intended or _is_quoted(found_calls, texts):
        return reply
    call, source = found_calls.calls[0], json.dumps(found_calls.calls[0].arguments, ensure_ascii=False)
    return _with_text_and_calls(
        reply,
        found_calls.remaining_text,
        ToolCall("call_text_1", call.name, call.arguments, source, EXAMPLE_CALL_ADVICE),
    )


def _with_first_call(
    reply: Assistant,
    found_calls: FoundCalls,
    is_offered: Callable[[TextCall], bool],
    get_seen_texts: Callable[[], Iterable[str]],
) -> Assistant:
    """Turn the first call between prose into a real call. Later calls were written before its output was known, and
    often contain only placeholders."""
    first_call = found_calls.calls[0]
    if not is_offered(first_call) or _is_quoted(replace(found_calls, calls=(first_call,)), get_seen_texts()):
        return reply
    source = json.dumps(first_call.arguments, ensure_ascii=False)
    return _with_text_and_calls(
        reply, found_calls.remaining_text, ToolCall("call_text_1", first_call.name, first_call.arguments, source)
    )


def _with_invalid_call(
    reply: Assistant, is_offered: Callable[[TextCall], bool], get_seen_texts: Callable[[], Iterable[str]]
) -> Assistant:
    if (echoed_text := extract_echoed_output(reply.text)) and any(
        _normalise_text(echoed_text) in _normalise_text(text) for text in get_seen_texts()
    ):
        return _with_text_and_calls(reply, echoed_text)  # an output repeated in its own tags
    invalid_call = find_call_with_invalid_arguments(reply.text) or find_tags_without_call(reply.text)
    if invalid_call is None or not (invalid_call.is_whole_text or is_offered(TextCall(invalid_call.name, {}))):
        return reply
    if sum(text.count(NOT_A_CALL_ADVICE) for text in get_seen_texts()) >= MAX_REPEATED_ADVICE:
        return reply
    source = _normalise_text(invalid_call.source)
    if any(source in _normalise_text(variant) for text in get_seen_texts() for variant in _text_variants(text)):
        return reply
    return _with_text_and_calls(
        reply,
        invalid_call.remaining_text,
        ToolCall("call_text_1", invalid_call.name, {}, invalid_call.source, invalid_call.problem),
    )


def _with_text_and_calls(reply: Assistant, text: str, *calls: ToolCall) -> Assistant:
    other_parts = [part for part in reply.parts if not isinstance(part, Text)]
    return replace(reply, parts=(*other_parts, *([Text(text)] if text else []), *calls))


def _is_quoted(found_calls: FoundCalls, seen_texts: Iterable[str]) -> bool:
    """Whether the calls occur in text that the model was shown: as written, as the same object, or in another form,
    ignoring line numbers, whitespace and quotes."""
    source = _normalise_text(found_calls.source)
    signatures = [
        (call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False)))
        for call in found_calls.calls
        if call.arguments
    ]
    max_chars = MAX_LENGTH_RATIO * len(found_calls.source) + 1_000
    return bool(signatures) and any(
        source in normalised_variant
        or any(name in normalised_variant and arguments in normalised_variant for name, arguments in signatures)
        or _contains_call(variant, signatures, max_chars)
        for text in seen_texts
        for variant in _text_variants(text)
        for normalised_variant in (_normalise_text(variant),)
    )


def _text_variants(text: str) -> Iterator[str]:
    """Yield variants of the text: without line numbers, without any line prefixes (line numbers, file names, diff and
    comment markers), and with HTML entities decoded."""
    yield _LINE_NUMBERS.sub("", text)
    yield _LINE_PREFIXES.sub("", text)
    if "&" in text:
        yield html.unescape(text)


def _contains_call(text: str, signatures: Iterable[tuple[str, str]], max_chars: int) -> bool:
    """Whether a tag or marker in text is followed by one of the calls, within `max_chars` characters."""
    for index, calls in enumerate(calls_after_markers(text, max_chars)):
        if index == MAX_COMPARED_CALLS:
            return True
        for call in calls:
            signature = call.name.casefold(), _normalise_text(json.dumps(call.arguments, ensure_ascii=False))
            if signature in signatures:
                return True
    return False


def _normalise_text(text: str) -> str:
    """Normalise text so that different forms of a call compare equal. Ignores whitespace, quotes, commas, escaped
    newlines and case, and treats Python's `None` as `null`."""
    return _IGNORED_CHARS.sub("", text).casefold().replace("none", "null")
