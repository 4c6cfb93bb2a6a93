"""Shared by the decoders: decoding a stream, parsing arguments, keeping call ids unique."""

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
"""Replaces an empty output: most wires reject empty text."""
ONLY_IMAGES = "(see the image)"
NO_IMAGE = "[an image was left out: this model takes none]"
TOOL_IMAGES = "Images from the outputs above:"
"""Precedes the images of outputs, on wires where an output can only be text."""

MISSHAPEN = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""Exceptions raised when an event does not have the shape that its wire defines."""

_SUFFIX = 5
"""Characters kept free when an id is shortened, to make it unique."""
_MOST_TOKENS = 1_000_000_000

NO_PROGRESS = ("ping", "keepalive", "keep_alive", "heartbeat", "response.queued", "response.in_progress")
"""Events that servers send when they have nothing to report."""


class Decoder(Protocol):
    """Decodes the raw events of one reply into chunks."""

    @property
    def finished(self) -> bool:
        """True after the last frame: no more events are expected."""

    @property
    def complete(self) -> bool:
        """True if the reply is complete, even if the stream ends here."""

    def feed(self, event: Json) -> Iterator[Chunk]:
        """The chunks that an event adds. Raises the error that an error frame describes."""

    def reply(self) -> Reply:
        """The whole reply."""


def decode(events: Iterable[Json], decoder: Decoder, origin: Origin) -> Iterator[Chunk]:
    """The chunks of a recorded stream, ending with one `Reply`."""
    for event in events:
        yield from _feed_event(decoder, event, origin)
        if decoder.finished:
            break
    yield _whole(decoder, origin)


async def converse(wire: Wire, body: Json, decoder: Decoder, origin: Origin) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of one reply as they arrive, ending with one `Reply`."""
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
    """The time limit for progress in a reply. Keep-alive events do not count as progress."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """Restart the time limit."""
        self._end = asyncio.get_running_loop().time() + self._seconds

    async def next_event(self, events: AsyncGenerator[Json, None], origin: Origin) -> Json | None:
        """The next event; None after the last. Raises `TimedOut`."""
        try:
            async with asyncio.timeout_at(self._end):
                return await anext(events, None)
        except TimeoutError as error:
            raise timeout_error(origin) from error


def is_progress(event: Json) -> bool:
    """Whether an event without chunks is progress, like the end of a block."""
    kind = event.get("type")
    return isinstance(kind, str) and kind not in NO_PROGRESS


def _feed_event(decoder: Decoder, event: Json, origin: Origin) -> Iterator[Chunk]:
    """Decode an event; a malformed event counts as a broken stream."""
    try:
        yield from decoder.feed(event)
    except ProviderError:
        raise
    except MISSHAPEN as error:
        raise stream_cut_error(origin) from error


def _whole(decoder: Decoder, origin: Origin) -> Reply:
    """The reply. Raises `StreamCut` if it is incomplete."""
    if not decoder.complete:
        raise stream_cut_error(origin)
    try:
        return decoder.reply()
    except MISSHAPEN as error:
        raise stream_cut_error(origin) from error


def make_reply(parts: Sequence[AssistantPart], model: str, usage: Usage, stop: StopReason) -> Reply:
    """Build a reply in the form that the rest of the program relies on: call ids are unique, and the stop reason is
    consistent with the calls."""
    kept = _with_unique_ids([_clean_part(part) for part in parts if not (isinstance(part, Text) and not part.text)])
    has_calls = any(isinstance(part, ToolCall) for part in kept)
    if stop in ("end", "calls"):  # some servers confuse the two
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
    """A unique id for a call whose server gave none."""
    return f"call_{secrets.token_hex(8)}"


def next_free(name: str, taken: set[str]) -> str:
    """The name, or the first of `name-2`, `name-3`, … that is free."""
    count, free = 1, name
    while free in taken:
        count += 1
        free = f"{name}-{count}"
    return free


def make_call(id: str, name: str, source: str) -> ToolCall:
    """Build a call from its argument text. A parse error becomes the call's `problem`."""
    source = sendable(source)
    arguments, problem = read_arguments(source)
    if arguments and not _is_read_by_servers(source):
        source = json.dumps(arguments, ensure_ascii=False)
    if not name:
        problem = "the call names no tool: name one of the tools you were given"
    return ToolCall(sendable(id), sendable(name), arguments, source, problem)


def written_arguments(call: ToolCall) -> Mapping[str, object]:
    """The arguments as the model wrote them; empty if they are not a JSON object."""
    return read_arguments(call.source)[0] if call.source.strip() else call.arguments


def _is_read_by_servers(source: str) -> bool:
    """Whether a source is strictly a JSON object."""
    try:
        return isinstance(json.loads(source), dict)
    except (ValueError, RecursionError):
        return False


def read_arguments(source: str) -> tuple[Mapping[str, object], str]:
    """Parse arguments; return them and an error text. Empty text means no arguments. Accepts hand-written JSON
    (`agent/providers/loose_json.py`), and an object encoded as a string."""
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
    """The ids of calls as they are sent: unique within a conversation, even with models of several servers, and with
    each output under the id of its call."""

    def __init__(self, model: str, unsafe: str = "", longest: int = 0) -> None:
        self._model = model
        """The model that is asked: its own ids are returned unchanged, however long."""
        self._unsafe = unsafe
        """A pattern for characters that the server rejects."""
        self._longest = longest
        """The longest id that the server accepts, in characters; 0 for no limit."""
        self._taken: set[str] = set()
        self._sent: dict[str, str] = {}

    def add(self, message: Assistant) -> None:
        """Register a reply's calls, before they are sent and answered."""
        for call in message.calls:
            safe = re.sub(self._unsafe, "_", call.id) if self._unsafe else call.id
            if 0 < self._longest < len(safe) and message.model != self._model:
                safe = safe[: self._longest - _SUFFIX]
            self._sent[call.id] = next_free(safe or "call", self._taken)
            self._taken.add(self._sent[call.id])

    def __getitem__(self, id: str) -> str:
        return self._sent.get(id, id)


def takes_images(facts: ModelFacts) -> bool:
    """True unless the model is known not to accept images; then a note replaces each of them."""
    return facts.images or not facts.known or ("images", "default") in facts.sources


def output_text(output: ToolOutput) -> str:
    """The text of an output, never empty."""
    if output.text.strip():
        return sendable(output.text)
    return ONLY_IMAGES if output.images else NO_OUTPUT


def count(value: object) -> int:
    """A token count from a field that may be absent, null or impossibly large."""
    return value if isinstance(value, int) and 0 < value < _MOST_TOKENS else 0


def openai_usage(usage: Json, read_as: str, written_as: str) -> Usage:
    """Convert a usage. OpenAI's APIs include cached tokens in the input; details may be missing. `read_as`,
    `written_as`: the API's names for input and output tokens."""
    details = usage.get(f"{read_as}_tokens_details") or {}
    cached, written = count(details.get("cached_tokens")), count(details.get("cache_write_tokens"))
    fresh = max(count(usage.get(f"{read_as}_tokens")) - cached - written, 0)
    thought = count((usage.get(f"{written_as}_tokens_details") or {}).get("reasoning_tokens"))
    return Usage(fresh, cached, written, count(usage.get(f"{written_as}_tokens")), thought)
