"""Requests over plain HTTP, and the two formats of event streams."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ebbtide.agent.errors import ProviderError, StreamCut
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.wires.encoding import encode
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:
    import httpx2

Json: TypeAlias = dict[str, Any]

LONGEST_FRAME = 64 * 1024 * 1024
"""Most bytes that a stream may send without a complete event."""
BOM = b"\xef\xbb\xbf"

STREAM_END: Json = {"type": "[DONE]"}
"""Represents the final frame of a Chat Completions stream, which is not JSON."""


class Wire(Protocol):
    """A connection to a server: sends a request's body, yields its events."""

    def events(self, body: Json) -> AsyncGenerator[Json, None]:
        """Yield the events of one reply. Raises only `ProviderError`."""

    async def prepare(self) -> None:
        """Import the libraries that the first request needs, in a thread."""

    async def close(self) -> None: ...


class LineReader:
    """Splits chunks of bytes into lines; CR LF and LF both end a line."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._open.append(chunk)
            return []
        whole = b"".join([*self._open, head])
        self._open = [rest] if rest else []
        return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in whole.split(b"\n")]

    def close(self) -> list[str]:
        """The last line, if the stream ended without a newline."""
        return self.feed(b"\n") if self._open else []


@dataclass(slots=True)
class SseReader:
    """Parses a `text/event-stream` into the `data` of its events. Comments and event names are ignored."""

    lines: LineReader = field(default_factory=LineReader)
    data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return self._events(self.lines.feed(chunk))

    def close(self) -> Iterator[str]:
        return self._events([*self.lines.close(), ""])

    def _events(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            name, _, value = line.partition(":")
            if not line and self.data:
                yield "\n".join(self.data)
                self.data = []
            elif name == "data":
                self.data.append(value.removeprefix(" "))


@dataclass(slots=True)
class NdjsonReader:
    """Parses newline-delimited JSON into lines. Blank lines are ignored."""

    lines: LineReader = field(default_factory=LineReader)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return (line for line in self.lines.feed(chunk) if line.strip())

    def close(self) -> Iterator[str]:
        return (line for line in self.lines.close() if line.strip())


EventReader: TypeAlias = SseReader | NdjsonReader


def parse_event(text: str, origin: Origin) -> Json:
    """Parse one event; a frame that is not a JSON object counts as a broken stream."""
    if text.strip() == "[DONE]":
        return STREAM_END
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamCut(f"{origin.model} sent a frame that is not JSON: try again.") from error
    if not isinstance(event, dict):
        raise StreamCut(f"{origin.model} sent a frame that is not a JSON object: try again.")
    return event


async def read_events(
    headers: Mapping[str, str], chunks: AsyncIterable[bytes], reader: EventReader, origin: Origin
) -> AsyncGenerator[Json, None]:
    """The events of a response with status 200. A JSON document instead of a stream is an error message of the
    server; a web page comes from something in between."""
    no_events = (b"<",) if isinstance(reader, NdjsonReader) else (b"{", b"[", b"<")
    begun, unread = False, 0
    async for chunk in chunks:
        if not begun:
            chunk = chunk.removeprefix(BOM)
            if chunk.lstrip()[:1] in no_events:
                from ebbtide.agent.providers.wires.bounded_errors import beginning  # noqa: PLC0415 - deferred: see `open_client`

                raise origin.failure(200, headers, await beginning(chunk, chunks))
        begun = begun or bool(chunk.strip())
        unread += len(chunk)
        for text in reader.feed(chunk):
            unread = 0
            yield parse_event(text, origin)
        if unread > LONGEST_FRAME:
            raise StreamCut(f"{origin.model} sent an endless frame: try again.")
    for text in reader.close():
        yield parse_event(text, origin)


class HttpWire:
    """The wire without an SDK: httpx2 and an API key."""

    def __init__(
        self, origin: Origin, url: str, headers: Mapping[str, str], reader: Callable[[], EventReader] = SseReader
    ) -> None:
        self._origin = origin
        self._url = url
        self._headers = {"user-agent": "ebbtide", "content-type": "application/json", **headers}
        self._reader = reader
        self._client: httpx2.AsyncClient | None = None

    async def prepare(self) -> None:
        for name in ("httpx2", "httpcore2"):  # else the first client would import the second one on the event loop
            await asyncio.to_thread(import_module, name)

    async def events(self, body: Json) -> AsyncGenerator[Json, None]:
        with translate_errors(self._origin):
            if self._client is None:
                self._client = open_client(self._origin)
            content = encode(body)
            async with AsyncExitStack() as stack:
                with translate_errors(self._origin, has_begun=False):
                    answer = self._client.stream("POST", self._url, headers=self._headers, content=content)
                    response = await stack.enter_async_context(answer)
                if response.status_code != 200:
                    raise self._origin.failure(response.status_code, response.headers, await response.aread())
                events = read_events(response.headers, response.aiter_bytes(), self._reader(), self._origin)
                async with aclosing(events):
                    async for event in events:
                        yield event

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """The header with the key, if there is one."""
    return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}


async def post_json(origin: Origin, url: str, headers: Mapping[str, str], body: Json) -> Json:
    """The response to one request that is not streamed."""
    with translate_errors(origin):
        async with open_client(origin) as client:
            response = await client.post(url, headers=dict(headers), json=body)
            if response.status_code != 200:
                raise origin.failure(response.status_code, response.headers, response.content)
            return parse_event(response.text, origin)


def open_client(origin: Origin) -> "httpx2.AsyncClient":
    """Create a client that follows no redirects, so that a key is sent only to the configured server. Raises
    `RouteFailed` if the environment names unusable proxies or certificates."""
    import httpx2  # noqa: PLC0415 - deferred: 0.1 s that a scripted run does not need

    from ebbtide.agent.providers.wires import proxies  # noqa: PLC0415 - deferred: as above
    from ebbtide.agent.providers.wires.bounded_errors import bound_error  # noqa: PLC0415 - deferred: as above
    from ebbtide.tools.network.name_lookup import use_lookup_threads  # noqa: PLC0415 - deferred: as above

    use_lookup_threads(asyncio.get_running_loop())
    endpoint = origin.endpoint
    proxies.check_proxy(endpoint.base_url)
    timeout = httpx2.Timeout(endpoint.timeout, connect=endpoint.connect_timeout)
    has_tls = endpoint.base_url.lower().startswith("https:")
    # Certificates are not loaded for a server without TLS. A proxy with TLS would be refused then, not trusted blindly.
    verify = True if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.AsyncClient(
            timeout=timeout, follow_redirects=False, verify=verify, event_hooks={"response": [bound_error]}
        )
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        raise proxies.no_client(error) from error


@contextmanager
def translate_errors(origin: Origin, *, has_begun: bool = True) -> Iterator[None]:
    """Convert any exception raised while talking to a server into a `ProviderError`. `--debug` shows the cause.
    `has_begun`: part of the response may have arrived."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # data from servers and proxies may make a library fail anywhere
        from ebbtide.agent.providers.wires.network_errors import translate  # noqa: PLC0415  # deferred: most requests succeed

        raise translate(error, origin, has_begun=has_begun) from error


async def drain(events: AsyncIterator[Json]) -> None:
    """Read briefly to the end of a finished response, so that the connection can be reused."""
    try:
        async with asyncio.timeout(0.25):
            async for _ in events:
                continue
    except (TimeoutError, ProviderError):  # the reply is complete, so the connection does not matter
        return
