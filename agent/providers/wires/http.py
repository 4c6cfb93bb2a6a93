"""Requests over plain HTTP, and parsers for the two formats of event streams."""

import asyncio
import json
import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, contextmanager
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ebbtide.agent.errors import ProviderError, StreamCut
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.wires.direct_client import DirectClient, can_connect_directly, read_prefix
from ebbtide.agent.providers.wires.encoding import encode_body
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.tools import network
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:
    import httpx2

JsonObject: TypeAlias = dict[str, Any]

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes that a stream may send without completing an event."""
UTF8_BOM = b"\xef\xbb\xbf"

_GZIP_MAGIC, _GZIP_WBITS = b"\x1f\x8b", 31
_MAX_UNZIPPED_BYTES = 1024 * 1024
"""Maximum number of bytes that are decompressed at once."""

STREAM_END: JsonObject = {"type": "[DONE]"}
"""Event for the final frame of a Chat Completions stream, which is not JSON."""
UNREADABLE_EVENT: JsonObject = {"type": "[UNREADABLE]"}
"""Event for a frame that is not a JSON object. Relays send meaningless frames such as `null`, `[]` and `keep-alive`."""
REPLY_FIELDS = ("choices", "output", "content", "candidates", "promptFeedback")
"""Fields of a reply that was not streamed. A JSON document with one of these fields, and without an error, counts as a
reply."""


class Wire(Protocol):
    """A connection to a server. It sends the body of a request, and yields the events of the reply."""

    def events(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """Yield the events of one reply. Raises only `ProviderError`."""

    async def prepare(self) -> None:
        """Import the libraries that the first request needs, in a thread."""

    async def close(self) -> None: ...


class Response(Protocol):
    """A response whose body has not been read."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    async def aread(self) -> bytes: ...


class Client(Protocol):
    """Sends requests, and reuses connections."""

    def stream(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes = b""
    ) -> AbstractAsyncContextManager[Response]: ...

    async def aclose(self) -> None: ...


class EventReader(Protocol):
    """Splits the bytes of a response into its events, as text."""

    def feed(self, chunk: bytes) -> Iterator[str]: ...

    def close(self) -> Iterator[str]:
        """Yield the remaining events at the end of the response."""


class LineReader:
    """Splits chunks of bytes into lines that end with CR LF, LF or, as event streams allow, CR."""

    def __init__(self) -> None:
        self._unfinished_chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        # A CR at the end of a chunk may be the first half of a CR LF.
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, -1))
        if end < 0 and not (self._unfinished_chunks and self._unfinished_chunks[-1].endswith(b"\r")):
            self._unfinished_chunks.append(chunk)
            return []
        buffered = b"".join([*self._unfinished_chunks, chunk])
        end = max(buffered.rfind(b"\n"), buffered.rfind(b"\r", 0, -1)) + 1
        self._unfinished_chunks = [buffered[end:]] if end < len(buffered) else []
        return [line.decode("utf-8", "replace") for line in buffered[:end].splitlines()]

    def close(self) -> list[str]:
        """Return the last line, if the stream ended without a line break."""
        return self.feed(b"\n") if self._unfinished_chunks else []


@dataclass(slots=True)
class SseReader:
    """Parses a `text/event-stream` into the `data` of its events. Comments and event names are ignored. A field named
    `error` also becomes an event (GPUStack)."""

    line_reader: LineReader = field(default_factory=LineReader)
    data_lines: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return self._events(self.line_reader.feed(chunk))

    def close(self) -> Iterator[str]:
        return self._events([*self.line_reader.close(), ""])

    def _events(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            # Some servers omit blank lines. Their events have one line each, so longer ones are not parsed here.
            is_next_event = name == "data" and len(self.data_lines) == 1 and is_json(self.data_lines[0])
            if not line or is_next_event:
                if self.data_lines:
                    yield "\n".join(self.data_lines)
                self.data_lines = []
            if name == "data":
                self.data_lines.append(value)
            elif name == "error":
                yield json.dumps({"error": json.loads(value) if is_json(value) else value})


def is_json(text: str) -> bool:
    """Whether the text is a complete JSON object, or the frame that ends a stream."""
    if text == "[DONE]":
        return True
    try:
        return text.startswith("{") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(slots=True)
class NdjsonReader:
    """Parses newline-delimited JSON into lines. Blank lines are ignored."""

    line_reader: LineReader = field(default_factory=LineReader)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return (line for line in self.line_reader.feed(chunk) if line.strip())

    def close(self) -> Iterator[str]:
        return (line for line in self.line_reader.close() if line.strip())


def parse_event(text: str) -> JsonObject:
    """Parse one event. Return `UNREADABLE_EVENT` if it is not a JSON object."""
    if text.strip() == "[DONE]":
        return STREAM_END
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return UNREADABLE_EVENT
    return event if isinstance(event, dict) else UNREADABLE_EVENT


def parse_events(text: str) -> Iterator[JsonObject]:
    """Yield the event in a text. If it breaks off in the middle of a line, the next event follows it there, as Z.ai and
    its relays send it (zai-org/GLM-5 issue 66)."""
    event = parse_event(text)
    yield event
    if event is UNREADABLE_EVENT:
        _, field_name, next_event = text.rpartition("data: {")
        if field_name and (event := parse_event(f"{{{next_event}")) is not UNREADABLE_EVENT:
            yield event


class GzipReader:
    """Decompresses gzip. Each flush of a proxy may be a member of its own, with a header and an end."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(_GZIP_WBITS)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk contains. What follows the last member, such as padding, is ignored. Raises `zlib.error`
        if the data is damaged."""
        has_more = bool(chunk)
        while has_more:
            if self._decompressor.eof:
                if not chunk.startswith(_GZIP_MAGIC[:1]):
                    return
                self._decompressor = zlib.decompressobj(_GZIP_WBITS)
            unzipped = self._decompressor.decompress(chunk, _MAX_UNZIPPED_BYTES)
            yield unzipped
            chunk = self._decompressor.unused_data if self._decompressor.eof else self._decompressor.unconsumed_tail
            has_more = bool(chunk) or len(unzipped) == _MAX_UNZIPPED_BYTES


async def unzip_chunks(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a body, decompressed if they are gzip. Proxies in front of OpenRouter and Gemini send gzip
    without a `Content-Encoding` header. Raises `zlib.error` if the data is damaged."""
    reader, has_begun, start = None, False, b""
    async for chunk in chunks:
        if not has_begun:
            chunk = start + chunk
            if _GZIP_MAGIC.startswith(chunk) and chunk != _GZIP_MAGIC:
                start = chunk
                continue
            has_begun = True
            reader = GzipReader() if chunk.startswith(_GZIP_MAGIC) else None
        if reader is None:
            yield chunk
        else:
            for unzipped in reader.feed(chunk):
                yield unzipped
    if not has_begun and start:
        yield start


def unzip_document(document: bytes, max_bytes: int) -> bytes:
    """Return the start of a document, decompressed if it is gzip without a `Content-Encoding` header. Damaged data is
    returned as it is."""
    if not document.startswith(_GZIP_MAGIC):
        return document
    unzipped = bytearray()
    try:
        for piece in GzipReader().feed(document):
            unzipped += piece
            if len(unzipped) > max_bytes:
                break
    except zlib.error:
        return document
    return bytes(unzipped[:max_bytes])


async def read_events(
    headers: Mapping[str, str], chunks: AsyncIterable[bytes], reader: EventReader, origin: Origin
) -> AsyncGenerator[JsonObject, None]:
    """Yield the events of a response with status 200. If the response is a JSON document instead of a stream, it is
    either a complete reply, which becomes the only event, or an error. A web page is always an error: a proxy or login
    page has responded instead of the server."""
    document_starts = (b"<",) if isinstance(reader, NdjsonReader) else (b"{", b"[", b"<")
    has_started, pending_bytes = False, 0
    chunks = unzip_chunks(chunks)
    async for chunk in chunks:
        if not has_started:
            chunk = chunk.removeprefix(UTF8_BOM)
            if chunk.lstrip()[:1] in document_starts:
                yield reply_from_document(await read_prefix(chunk, chunks, MAX_FRAME_BYTES), headers, origin)
                return
        has_started = has_started or bool(chunk.strip())
        pending_bytes += len(chunk)
        for text in reader.feed(chunk):
            pending_bytes = 0
            for event in parse_events(text):
                yield event
        if pending_bytes > MAX_FRAME_BYTES:
            raise StreamCut(f"{origin.model} sent an endless frame: try again.")
    for text in reader.close():
        for event in parse_events(text):
            yield event


def reply_from_document(document: bytes, headers: Mapping[str, str], origin: Origin) -> JsonObject:
    """Parse a reply that was sent as one JSON document. Raises an error if the document describes one."""
    reply = parse_event(document.decode("utf-8", "replace"))
    if reply.get("error") or not any(name in reply for name in REPLY_FIELDS):
        raise origin.response_error(200, headers, document)
    return reply


class HttpWire:
    """A wire that uses only HTTP and an API key, not an SDK."""

    def __init__(
        self,
        origin: Origin,
        url: str,
        headers: Mapping[str, str],
        create_reader: Callable[[], EventReader] = SseReader,
        build_request_headers: Callable[[JsonObject], Mapping[str, str]] | None = None,
    ) -> None:
        """`build_request_headers`: returns further headers for a request's body."""
        self._origin = origin
        self._url = url
        self._headers = {"user-agent": "ebbtide", "content-type": "application/json", **headers}
        self._create_reader = create_reader
        self._build_request_headers = build_request_headers
        self._client: Client | None = None

    async def prepare(self) -> None:
        if can_connect_directly(self._origin.endpoint.base_url):
            return
        for name in ("httpx2", "httpcore2"):  # without this, the first client would import httpcore2 on the event loop
            await asyncio.to_thread(import_module, name)

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        with translate_errors(self._origin):
            if self._client is None:
                self._client = open_client(self._origin)
            content = encode_body(body)
            more_headers = {} if self._build_request_headers is None else self._build_request_headers(body)
            headers = {**self._headers, **more_headers}
            async with AsyncExitStack() as stack:
                with translate_errors(self._origin, has_response_started=False):
                    response_context = self._client.stream("POST", self._url, headers=headers, content=content)
                    response = await stack.enter_async_context(response_context)
                if response.status_code != 200:
                    raise self._origin.response_error(response.status_code, response.headers, await response.aread())
                events = read_events(response.headers, response.aiter_bytes(), self._create_reader(), self._origin)
                async with aclosing(events):
                    async for event in events:
                        yield event

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def bearer_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the header with the key; empty if there is no key."""
    return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}


async def post_json(origin: Origin, url: str, headers: Mapping[str, str], body: JsonObject) -> JsonObject:
    """Send a request that is not streamed, and return the response."""
    with translate_errors(origin):
        headers = {"content-type": "application/json", **headers}
        async with (
            aclosing(open_client(origin)) as client,
            client.stream("POST", url, headers=headers, content=encode_body(body)) as response,
        ):
            content = await response.aread()
        if response.status_code != 200:
            raise origin.response_error(response.status_code, response.headers, content)
        return parse_event(unzip_document(content, MAX_FRAME_BYTES).decode("utf-8", "replace"))


def open_client(origin: Origin) -> Client:
    """Create a client that follows no redirects, so that a key is sent only to the configured server. Raises
    `RouteFailed` if the proxies or certificates set in the environment are unusable."""
    if can_connect_directly(origin.endpoint.base_url):
        network.name_lookup.install_lookup_threads(asyncio.get_running_loop())
        return DirectClient(origin)
    return open_httpx_client(origin)


def open_httpx_client(origin: Origin) -> "httpx2.AsyncClient":
    """Like `open_client`, for an SDK or a proxy."""
    import httpx2  # noqa: PLC0415 - deferred: 0.1 s that most runs do not need

    network.name_lookup.install_lookup_threads(asyncio.get_running_loop())
    endpoint = origin.endpoint
    wires.proxies.check_proxy(endpoint.base_url)
    timeout = httpx2.Timeout(endpoint.timeout, connect=endpoint.connect_timeout)
    has_tls = endpoint.base_url.lower().startswith("https:")
    # Without TLS, no certificates are loaded. If a proxy uses TLS, its certificate is then rejected instead of being
    # trusted blindly.
    verify = True if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.AsyncClient(
            timeout=timeout,
            follow_redirects=False,
            verify=verify,
            event_hooks={"response": [wires.error_body_limit.truncate_error_body]},
        )
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        raise wires.proxies.client_error(error) from error


@contextmanager
def translate_errors(origin: Origin, *, has_response_started: bool = True) -> Iterator[None]:
    """Convert any exception raised while communicating with a server into a `ProviderError`. `--debug` shows the
    original exception. `has_response_started`: whether part of the response may have arrived."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # data from servers and proxies may make a library fail anywhere
        raise wires.network_errors.translate_error(error, origin, has_response_started=has_response_started) from error


async def drain_events(events: AsyncIterator[JsonObject]) -> None:
    """Read what remains of a finished response, but only for a short time, so that the connection can be reused."""
    try:
        async with asyncio.timeout(0.25):
            async for _ in events:
                continue
    except (TimeoutError, ProviderError):  # the reply is complete; the connection is just not reused
        return
