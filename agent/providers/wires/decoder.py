"""Functions shared by the decoders: decoding a stream, parsing arguments, and making call ids unique."""

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias

from ebbtide.agent.errors import BadRequest, ProviderError
from ebbtide.agent.messages import Assistant, AssistantPart, StopReason, Text, ToolCall, ToolOutput, Usage
from ebbtide.agent.providers.base import Chunk, ModelFacts, Reply
from ebbtide.agent.providers.loose_json import SURROGATE_ERROR, is_encodable, parse_document
from ebbtide.agent.providers.wires.http import UNREADABLE_EVENT, JsonObject, Wire, drain_events
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error, timeout_error
from ebbtide.agent.view.long_texts import sendable_text
from ebbtide.tools.call_arguments.schema import MAX_NESTING_DEPTH, is_nested_deeper

EMPTY_OUTPUT_TEXT = "(no output)"
"""Text of an empty output, since most APIs reject empty text."""
IMAGES_ONLY_TEXT = "(see the image)"
OMITTED_IMAGE_TEXT = "[image omitted: this model does not accept images]"
TOOL_IMAGES_HEADING = "Images from the outputs above:"
"""Text before images from outputs, for APIs in which outputs can only be text."""

MALFORMED_EVENT_ERRORS = (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""Exceptions raised when an event does not have the structure that its API defines."""

USAGE_TIMEOUT_S = 5.0
"""Maximum time to wait for the usage and the end of the stream after a complete reply, in seconds."""

_ID_SUFFIX_CHARS = 5
"""Number of characters kept free when an id is shortened, for a suffix that makes the id unique."""
_MAX_PLAUSIBLE_TOKENS = 1_000_000_000

KEEP_ALIVE_EVENT_TYPES = (
    UNREADABLE_EVENT["type"],
    "ping",
    "keepalive",
    "keep_alive",
    "heartbeat",
    "response.queued",
    "response.in_progress",
)
"""Types of events that servers send while nothing happens."""


ApiName: TypeAlias = Literal["anthropic", "openai", "openai-chat", "ollama", "gemini"]
"""The supported APIs. Each is named after the provider setting that selects it for any server."""


class Decoder(Protocol):
    """Decodes the raw events of one reply into chunks."""

    @property
    def api(self) -> ApiName: ...

    @property
    def is_finished(self) -> bool:
        """Whether the last frame has arrived, so that no more events are expected."""

    @property
    def is_complete(self) -> bool:
        """Whether the reply would be complete if the stream ended now."""

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        """Yield the chunks that an event adds. Raises the error that an error frame describes."""

    def reply(self) -> Reply:
        """Return the complete reply."""


def decode(events: Iterable[JsonObject], decoder: Decoder, origin: Origin) -> Iterator[Chunk]:
    """Yield the chunks of a recorded stream, ending with one `Reply`."""
    tolerant_decoder = TolerantDecoder(decoder)
    for event in events:
        yield from tolerant_decoder.feed(event)
        if decoder.is_finished:
            break
    yield tolerant_decoder.reply(origin)


async def stream_chunks(wire: Wire, body: JsonObject, decoder: Decoder, origin: Origin) -> AsyncGenerator[Chunk, None]:
    """Yield the chunks of one reply as they arrive, ending with one `Reply`."""
    tolerant_decoder = TolerantDecoder(decoder)
    async with aclosing(wire.events(body)) as events:
        reply_timeout = ReplyTimeout(origin)
        while (event := await reply_timeout.next_event(events, decoder)) is not None:
            has_output = False
            for chunk in tolerant_decoder.feed(event):
                has_output = True
                yield chunk
            if decoder.is_complete and not has_output:
                reply_timeout.restart(min(origin.endpoint.timeout, USAGE_TIMEOUT_S))
            elif has_output or is_progress(event):
                reply_timeout.restart(origin.endpoint.timeout)
            if decoder.is_finished:
                await drain_events(events)
                break
    yield tolerant_decoder.reply(origin)


class TolerantDecoder:
    """Feeds a decoder, and counts unreadable events instead of failing. Relays and new models send undocumented frames.
    A single bad frame must not lose a reply that has been paid for."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._skipped_count = 0
        self._apis = set[ApiName]()
        """The APIs whose event formats have been seen."""

    def feed(self, event: JsonObject) -> Iterator[Chunk]:
        """Yield the chunks of an event; none if it is malformed. Raises the error that an error frame describes."""
        if event is UNREADABLE_EVENT:
            self._skipped_count += 1
            return
        if not self._decoder.is_complete and (api := detect_api(event)) is not None:
            self._apis.add(api)
        try:
            yield from self._decoder.feed(event)
        except ProviderError:
            raise
        except MALFORMED_EVENT_ERRORS:
            self._skipped_count += 1

    def reply(self, origin: Origin) -> Reply:
        """Return the reply. Raises `StreamCut` if it is incomplete, and `BadRequest` if it has another API's format."""
        if not self._decoder.is_complete and self._apis and self._decoder.api not in self._apis:
            api = min(self._apis)
            raise BadRequest(
                f"the {origin.model} server answers in the format of another API. Use `{api}/…` with its address.",
                status=200,
            )
        if not self._decoder.is_complete:
            raise stream_cut_error(origin)
        try:
            return replace(self._decoder.reply(), skipped_frame_count=self._skipped_count)
        except MALFORMED_EVENT_ERRORS as error:
            raise stream_cut_error(origin) from error


def detect_api(event: JsonObject) -> ApiName | None:
    """Return the API that an event belongs to. None if the event exists in several APIs."""
    match event:
        case {"choices": [_, *_]}:
            return "openai-chat"
        case {"type": "message_start" | "content_block_start" | "message"}:
            return "anthropic"
        case {"type": str(kind)} if kind.startswith("response."):
            return "openai"
        case {"message": dict(), "done": bool()}:
            return "ollama"
    return None


class ReplyTimeout:
    """Time limit for progress in a reply. Keep-alive events are not progress."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self.restart(origin.endpoint.timeout)

    def restart(self, seconds: float) -> None:
        """Start a new time limit."""
        self._deadline = asyncio.get_running_loop().time() + seconds

    async def next_event(self, events: AsyncGenerator[JsonObject, None], decoder: Decoder) -> JsonObject | None:
        """Return the next event; None at the end. If the connection breaks or falls silent after a complete reply, that
        also counts as the end, so that the request is not repeated and paid for again. Raises `TimedOut`, and
        `ProviderError` if the reply is incomplete."""
        try:
            async with asyncio.timeout_at(self._deadline):
                return await anext(events, None)
        except TimeoutError as error:
            if decoder.is_complete:
                return None
            raise timeout_error(self._origin) from error
        except ProviderError:
            if decoder.is_complete:
                return None
            raise


def is_progress(event: JsonObject) -> bool:
    """Whether an event that yields no chunks, such as the end of a block, still shows progress."""
    kind = event.get("type")
    return isinstance(kind, str) and kind not in KEEP_ALIVE_EVENT_TYPES


def build_reply(parts: Sequence[AssistantPart], model: str, usage: Usage, stop_reason: StopReason) -> Reply:
    """Build a reply with unique call ids and a stop reason that is consistent with the calls."""
    clean_parts = _with_unique_ids(
        [_sanitise_native(part) for part in parts if not (isinstance(part, Text) and not part.text)]
    )
    has_calls = any(isinstance(part, ToolCall) for part in clean_parts)
    if stop_reason in ("end", "calls"):  # some servers confuse these two
        stop_reason = "calls" if has_calls else "end"
    return Reply(Assistant(tuple(clean_parts), model, is_paused=stop_reason == "pause"), usage, stop_reason)


def _sanitise_native(part: AssistantPart) -> AssistantPart:
    """Make a part's native item safe to store and send."""
    if isinstance(part, ToolCall) or part.native is None or is_encodable(json.dumps(part.native, ensure_ascii=False)):
        return part
    return replace(part, native={name: _sanitise_value(value) for name, value in part.native.items()})


def _sanitise_value(value: object) -> object:
    match value:
        case str():
            return sendable_text(value)
        case Mapping():
            return {name: _sanitise_value(item) for name, item in value.items()}
        case list():
            return [_sanitise_value(item) for item in value]
        case _:
            return value


def _with_unique_ids(parts: Sequence[AssistantPart]) -> list[AssistantPart]:
    seen_ids: set[str] = set()
    unique: list[AssistantPart] = []
    for part in parts:
        if isinstance(part, ToolCall):
            part = replace(part, id=unique_name(part.id or create_call_id(), seen_ids))
            seen_ids.add(part.id)
        unique.append(part)
    return unique


def create_call_id() -> str:
    """Create a unique id for a call to which the server gave none."""
    return f"call_{secrets.token_hex(8)}"


def unique_name(name: str, used_names: set[str]) -> str:
    """Return the name, or the first of `name-2`, `name-3`, … that is not in use."""
    number, candidate = 1, name
    while candidate in used_names:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def build_call(call_id: str, name: str, source: str) -> ToolCall:
    """Build a call from the text of its arguments. A parse error becomes the call's `problem`."""
    source = sendable_text(source)
    arguments, problem = parse_arguments(source)
    if arguments and not _is_json_object(source):
        source = json.dumps(arguments, ensure_ascii=False)
    if not name:
        problem = "the call names no tool: name one of the tools you were given"
    return ToolCall(sendable_text(call_id), sendable_text(name), arguments, source, problem)


def arguments_as_written(call: ToolCall) -> Mapping[str, object]:
    """Return the arguments as the model wrote them; empty if they are not a JSON object."""
    return parse_arguments(call.source)[0] if call.source.strip() else call.arguments


def _is_json_object(source: str) -> bool:
    """Whether the text is a strictly valid JSON object, as servers expect."""
    try:
        return isinstance(json.loads(source), dict)
    except (ValueError, RecursionError):
        return False


def parse_arguments(source: str) -> tuple[Mapping[str, object], str]:
    """Parse arguments. Also return an error message, empty on success. Empty text means no arguments. JSON with common
    mistakes is accepted (`agent/providers/loose_json.py`), and so is an object encoded as a string."""
    if not source.strip():
        return {}, ""
    try:
        arguments = parse_document(source)
        if isinstance(arguments, str):
            arguments = parse_document(arguments)
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON ({error}): send them again in full"
    if not isinstance(arguments, dict):
        return {}, "the arguments are not a JSON object: send an object with the tool's parameters"
    if is_nested_deeper(arguments, MAX_NESTING_DEPTH):
        return {}, f"the arguments are nested more than {MAX_NESTING_DEPTH} levels deep: flatten them"
    if "\\u" in source and not is_encodable(json.dumps(arguments, ensure_ascii=False)):
        return {}, SURROGATE_ERROR
    return arguments, ""


class CallIds:
    """The call ids that are sent to the server. They are unique within a conversation, even if several servers created
    them. Each output is sent with its call's id."""

    def __init__(self, model: str, unsafe: str = "", max_chars: int = 0) -> None:
        self._model = model
        """The model that receives the request. Ids that it created itself are sent back unchanged, even if they are too
        long."""
        self._unsafe_pattern = unsafe
        """Pattern of the characters that the server rejects."""
        self._max_chars = max_chars
        """Maximum number of characters in an id; 0 for no limit."""
        self._used_ids: set[str] = set()
        self._sent_ids: dict[str, str] = {}

    def add(self, message: Assistant) -> None:
        """Register a reply's calls. Must be called before the calls and their outputs are encoded."""
        for call in message.calls:
            safe = re.sub(self._unsafe_pattern, "_", call.id) if self._unsafe_pattern else call.id
            if 0 < self._max_chars < len(safe) and message.model != self._model:
                safe = safe[: self._max_chars - _ID_SUFFIX_CHARS]
            self._sent_ids[call.id] = unique_name(safe or "call", self._used_ids)
            self._used_ids.add(self._sent_ids[call.id])

    def __getitem__(self, id: str) -> str:
        return self._sent_ids.get(id, id)


class ShortCallIds(CallIds):
    """Ids of nine letters and digits. Mistral rejects others (opencode issue 1680)."""

    def __init__(self) -> None:
        super().__init__("")

    def add(self, message: Assistant) -> None:
        for call in message.calls:
            short, attempt = call.id, 0
            while not re.fullmatch(r"[a-zA-Z0-9]{9}", short) or short in self._used_ids:
                short = hashlib.sha256(f"{call.id} {attempt}".encode("utf-8", "surrogatepass")).hexdigest()[:9]
                attempt += 1
            self._sent_ids[call.id] = short
            self._used_ids.add(short)


def can_send_images(facts: ModelFacts) -> bool:
    """Whether to send images. They are replaced with notes only if the model is known not to accept them."""
    return facts.images or not facts.is_known or ("images", "default") in facts.sources


def output_text(output: ToolOutput) -> str:
    """Return the text of an output, which is never empty."""
    if output.text.strip():
        return sendable_text(output.text)
    return IMAGES_ONLY_TEXT if output.images else EMPTY_OUTPUT_TEXT


def parse_token_count(value: object) -> int:
    """Parse a token count. 0 if it is absent, null or impossibly large."""
    return value if isinstance(value, int) and 0 < value < _MAX_PLAUSIBLE_TOKENS else 0


def parse_openai_usage(usage: JsonObject, input_name: str, output_name: str) -> Usage:
    """Convert a usage report. OpenAI's APIs include cached tokens in the input and reasoning in the output; details may
    be missing. `input_name`, `output_name`: the API's names for input and output tokens."""
    details = usage.get(f"{input_name}_tokens_details") or {}
    prompt = parse_token_count(usage.get(f"{input_name}_tokens"))
    output = parse_token_count(usage.get(f"{output_name}_tokens"))
    cached_names = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")  # DeepSeek, Moonshot, Mistral
    cached = next(
        filter(
            None,
            (
                parse_token_count(details.get("cached_tokens")),
                *(parse_token_count(usage.get(name)) for name in cached_names),
            ),
        ),
        0,
    )
    cached = min(cached, prompt)
    cache_written = min(parse_token_count(details.get("cache_write_tokens")), prompt - cached)
    reasoning = parse_token_count((usage.get(f"{output_name}_tokens_details") or {}).get("reasoning_tokens"))
    if (
        parse_token_count(usage.get("total_tokens")) == prompt + output + reasoning
    ):  # xAI leaves reasoning out of the output
        output += reasoning
    return Usage(prompt - cached - cache_written, cached, cache_written, output, reasoning)
