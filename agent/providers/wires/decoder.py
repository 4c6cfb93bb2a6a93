"""What the decoders share: running one over a stream, reading arguments, keeping calls answerable."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from ebbtide.agent.context.long_texts import sendable
from ebbtide.agent.errors import ProviderError
from ebbtide.agent.messages import Assistant, AssistantPart, StopReason, Text, ToolCall, ToolOutput, Usage
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply
from ebbtide.agent.providers.loose_json import HALF_PAIR, is_text, read_whole
from ebbtide.agent.providers.wires.http import Json, Wire, drain
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error, timeout_error
from ebbtide.tools.schema import MAX_DEPTH, is_nested

NO_OUTPUT = "(no output)"
"""Stands for an empty output: most wires refuse an empty text."""
ONLY_IMAGES = "(see the image)"
NO_IMAGE = "[an image was left out: this model takes none]"
TOOL_IMAGES = "Images from the outputs above:"
"""Goes before the images of outputs, on wires where an output is text alone."""

MISSHAPEN = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What reading an event raises that has not the shape that its wire gives it."""

_SUFFIX = 5
"""Characters of an id that was cut that are kept free, to tell it from others."""
_MOST_TOKENS = 1_000_000_000

NO_PROGRESS = ("ping", "keepalive", "keep_alive", "heartbeat", "response.queued", "response.in_progress")
"""Events that servers send while they have nothing to say."""


class Decoder(Protocol):
    """Raw events of one answer in, chunks out."""

    @property
    def finished(self) -> bool:
        """True after the last frame: nothing more is expected."""

    @property
    def complete(self) -> bool:
        """True when the answer is whole, even if the stream ends here."""

    def feed(self, event: Json) -> Iterator[Chunk]:
        """The chunks that an event adds. Raises what an error frame stands for."""

    def reply(self) -> Reply:
        """The whole answer."""


def decode(events: Iterable[Json], decoder: Decoder, origin: Origin) -> Iterator[Chunk]:
    """The chunks of a recorded stream, ending in one `Reply`."""
    for event in events:
        yield from _feed_event(decoder, event, origin)
        if decoder.finished:
            break
    yield _whole(decoder, origin)


async def converse(wire: Wire, body: Json, decoder: Decoder, origin: Origin) -> AsyncGenerator[Chunk, None]:
    """The chunks of one answer as they arrive, ending in one `Reply`."""
    async with aclosing(wire.events(body)) as events:
        patience = AnswerTimeouts(origin.endpoint.timeout)
        while (event := await patience.next_event(events, origin)) is not None:
            said = False
            for chunk in _feed_event(decoder, event, origin):
                said = True
                yield chunk
            if said or is_progress(event):
                patience.begin()
            if decoder.finished:
                await drain(events)
                break
    yield _whole(decoder, origin)


class AnswerTimeouts:
    """The time in which something of an answer has to come. What only keeps a connection alive is nothing of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """All of the time is left again."""
        self._end = asyncio.get_running_loop().time() + self._seconds

    async def next_event(self, events: AsyncGenerator[Json, None], origin: Origin) -> Json | None:
        """The next one; None after the last. Raises `TimedOut`."""
        try:
            async with asyncio.timeout_at(self._end):
                return await anext(events, None)
        except TimeoutError as error:
            raise timeout_error(origin) from error


def is_progress(event: Json) -> bool:
    """Whether an event of which nothing is shown brings the answer forward, as the end of a block does."""
    kind = event.get("type")
    return isinstance(kind, str) and kind not in NO_PROGRESS


def _feed_event(decoder: Decoder, event: Json, origin: Origin) -> Iterator[Chunk]:
    """What the decoder makes of an event; an event of a shape that the wire does not have is a cut stream, no crash."""
    try:
        yield from decoder.feed(event)
    except ProviderError:
        raise
    except MISSHAPEN as error:
        raise stream_cut_error(origin) from error


def _whole(decoder: Decoder, origin: Origin) -> Reply:
    """The answer, unless its end or a piece of it is missing."""
    if not decoder.complete:
        raise stream_cut_error(origin)
    try:
        return decoder.reply()
    except MISSHAPEN as error:
        raise stream_cut_error(origin) from error


def make_reply(parts: Sequence[AssistantPart], model: str, usage: Usage, stop: StopReason) -> Reply:
    """The reply in the form that the rest of the program relies on: calls can be answered one by one, and the reason
    for stopping agrees with them."""
    kept = _with_unique_ids([_clean_part(part) for part in parts if not (isinstance(part, Text) and not part.text)])
    has_calls = any(isinstance(part, ToolCall) for part in kept)
    if stop in ("end", "calls"):  # some servers say one when they mean the other
        stop = "calls" if has_calls else "end"
    return Reply(Assistant(tuple(kept), model, is_paused=stop == "pause"), usage, stop)


def _clean_part(part: AssistantPart) -> AssistantPart:
    """The part with a native item that can be stored and sent."""
    if isinstance(part, ToolCall) or part.native is None or is_text(json.dumps(part.native, ensure_ascii=False)):
        return part
    return replace(part, native={name: _clean_tree(value) for name, value in part.native.items()})


def _clean_tree(value: object) -> object:
    match value:
        case str():
            return sendable(value)
        case Mapping():
            return {name: _clean_tree(item) for name, item in value.items()}
        case list():
            return [_clean_tree(item) for item in value]
        case _:
            return value


def _with_unique_ids(parts: Sequence[AssistantPart]) -> list[AssistantPart]:
    seen: set[str] = set()
    unique: list[AssistantPart] = []
    for part in parts:
        if isinstance(part, ToolCall):
            part = replace(part, id=next_free(part.id or new_id(), seen))
            seen.add(part.id)
        unique.append(part)
    return unique


def new_id() -> str:
    """An id for a call whose server gave none; no other call of the session has it."""
    return f"call_{secrets.token_hex(8)}"


def next_free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3`, … that is not taken."""
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    return free


def make_call(id: str, name: str, source: str) -> ToolCall:
    """A call from its argument text. What cannot be read becomes the call's `problem`."""
    source = sendable(source)
    arguments, problem = read_arguments(source)
    if arguments and not _is_read_by_servers(source):
        source = json.dumps(arguments, ensure_ascii=False)
    if not name:
        problem = "the call names no tool: name one of the tools you were given"
    return ToolCall(sendable(id), sendable(name), arguments, source, problem)


def written_arguments(call: ToolCall) -> Mapping[str, object]:
    """The arguments as the model wrote them; none where those are no JSON object."""
    return read_arguments(call.source)[0] if call.source.strip() else call.arguments


def _is_read_by_servers(source: str) -> bool:
    """Whether a source of which arguments were read is a JSON object to the letter."""
    try:
        return isinstance(json.loads(source), dict)
    except (ValueError, RecursionError):
        return False


def read_arguments(source: str) -> tuple[Mapping[str, object], str]:
    """The arguments, and why they cannot be read. No text at all means no arguments. They may be written by hand
    (`agent/providers/loose_json.py`), and the object once more as a string."""
    if not source.strip():
        return {}, ""
    try:
        arguments = read_whole(source)
        if isinstance(arguments, str):
            arguments = read_whole(arguments)
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON ({error}): send them again, whole"
    if not isinstance(arguments, dict):
        return {}, "the arguments are not a JSON object: send an object with the tool's parameters"
    if is_nested(arguments, MAX_DEPTH):
        return {}, f"the arguments nest deeper than {MAX_DEPTH} levels: send them flatter"
    if "\\u" in source and not is_text(json.dumps(arguments, ensure_ascii=False)):
        return {}, HALF_PAIR
    return arguments, ""


class CallIds:
    """The ids of calls as they are sent: no id twice in a conversation, though models of different servers have spoken
    in it, and each output under the id of its call."""

    def __init__(self, model: str, unsafe: str = "", longest: int = 0) -> None:
        self._model = model
        """The one that is asked: its own ids go back as they came, however long they are."""
        self._unsafe = unsafe
        """A pattern of characters that the server does not take."""
        self._longest = longest
        """Characters of an id that the server takes; 0: any number."""
        self._taken: set[str] = set()
        self._sent: dict[str, str] = {}

    def add(self, message: Assistant) -> None:
        """Takes note of a reply's calls, before they are sent and answered."""
        for call in message.calls:
            safe = re.sub(self._unsafe, "_", call.id) if self._unsafe else call.id
            if 0 < self._longest < len(safe) and message.model != self._model:
                safe = safe[: self._longest - _SUFFIX]
            self._sent[call.id] = next_free(safe or "call", self._taken)
            self._taken.add(self._sent[call.id])

    def __getitem__(self, id: str) -> str:
        return self._sent.get(id, id)


def takes_images(facts: ModelFacts) -> bool:
    """True unless the model is known to take none: then a note is sent in the place of each."""
    return facts.images or not facts.known or ("images", "default") in facts.sources


def output_text(output: ToolOutput) -> str:
    """What an output says, which is never nothing."""
    if output.text.strip():
        return sendable(output.text)
    return ONLY_IMAGES if output.images else NO_OUTPUT


def count(value: object) -> int:
    """A number of tokens, from a field that may be absent, null, or more than any window holds."""
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0


def openai_usage(usage: Json, read_as: str, written_as: str) -> Usage:
    """The usage in our terms. APIs of OpenAI count what was cached as read too; details may be missing. `read_as`,
    `written_as`: what the API calls its two kinds of tokens."""
    details = usage.get(f"{read_as}_tokens_details") or {}
    cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    fresh = max(count(usage.get(f"{read_as}_tokens")) - cached - written, 0)
    thought = count((usage.get(f"{written_as}_tokens_details") or {}).get("reasoning_tokens"))
    return Usage(fresh, cached, written, count(usage.get(f"{written_as}_tokens")), thought)
