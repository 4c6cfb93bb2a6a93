"""Requests over plain HTTP, and the two ways a stream is cut into events. It knows no provider's vocabulary."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from agent.errors import AuthFailed, BadRequest, ProviderError, StreamCut, TimedOut, Unreachable
from agent.providers.base import Endpoint
from agent.providers.failures import classify, tidy

if TYPE_CHECKING:
    import httpx2

Json: TypeAlias = dict[str, Any]

DONE: Json = {"type": "[DONE]"}
"""Stands for the frame that ends a Chat Completions stream and is not JSON."""


class Wire(Protocol):
    """A way to a server: takes a request's body, gives its events as they come."""

    def events(self, body: Json) -> AsyncGenerator[Json, None]:
        """The events of one answer. Raises only `ProviderError`."""
        ...

    async def prepare(self) -> None:
        """Loads the libraries that the first request needs, in a thread."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """Who is talked to, for errors and for the key."""

    model: str
    """`provider/name`."""
    endpoint: Endpoint

    def __post_init__(self) -> None:
        key = self.endpoint.key or ""
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise AuthFailed(f"the key for {self.model} holds characters that no key has. Check where it is set.")

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint.base_url).netloc.rpartition("@")[2] or self.endpoint.base_url

    def failure(self, status: int, headers: Mapping[str, str], body: object) -> ProviderError:
        """The error that an answer of the server stands for."""
        return classify(status, headers, body, self.model, self.endpoint.key)


class LineReader:
    """Bytes in, whole lines out, however the bytes are split; CR LF and LF both end a line."""

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
        """The last line, when the stream ended without ending it."""
        return self.feed(b"\n") if self._open else []


@dataclass(slots=True)
class SseReader:
    """Bytes of a `text/event-stream` in, the `data` of whole events out. Comments and event names are left out."""

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
    """Bytes of newline-delimited JSON in, whole lines out. Blank lines are left out."""

    lines: LineReader = field(default_factory=LineReader)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return (line for line in self.lines.feed(chunk) if line.strip())

    def close(self) -> Iterator[str]:
        return (line for line in self.lines.close() if line.strip())


Reader: TypeAlias = SseReader | NdjsonReader


def parse_event(text: str, origin: Origin) -> Json:
    """One event as a dict; a frame that is not a JSON object is a cut stream."""
    if text.strip() == "[DONE]":
        return DONE
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamCut(f"{origin.model} sent a frame that is not JSON: try again.") from error
    if not isinstance(event, dict):
        raise StreamCut(f"{origin.model} sent a frame that is not a JSON object: try again.")
    return event


async def read_events(
    headers: Mapping[str, str], chunks: AsyncIterable[bytes], reader: Reader, origin: Origin
) -> AsyncGenerator[Json, None]:
    """The events of an answer with status 200. A JSON document in place of a stream is the server's error message."""
    begun = isinstance(reader, NdjsonReader)
    async for chunk in chunks:
        if not begun and chunk.lstrip()[:1] in (b"{", b"["):
            raise origin.failure(200, headers, chunk + b"".join([rest async for rest in chunks]))
        begun = begun or bool(chunk.strip())
        for text in reader.feed(chunk):
            yield parse_event(text, origin)
    for text in reader.close():
        yield parse_event(text, origin)


class HttpWire:
    """The wire without an SDK: httpx2 and an API key."""

    def __init__(
        self, origin: Origin, url: str, headers: Mapping[str, str], reader: Callable[[], Reader] = SseReader
    ) -> None:
        self._origin = origin
        self._url = url
        self._headers = {"user-agent": "ebbtide", "content-type": "application/json", **headers}
        self._reader = reader
        self._client: httpx2.AsyncClient | None = None

    async def prepare(self) -> None:
        for name in ("httpx2", "httpcore2"):  # the second one would be loaded with the first client, on the event loop
            await asyncio.to_thread(import_module, name)

    async def events(self, body: Json) -> AsyncGenerator[Json, None]:
        with translated(self._origin):
            if self._client is None:
                self._client = open_client(self._origin.endpoint)
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            async with self._client.stream("POST", self._url, headers=self._headers, content=content) as response:
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
    """The header that carries the key, when there is one."""
    return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}


async def post_json(origin: Origin, url: str, headers: Mapping[str, str], body: Json) -> Json:
    """The answer to one request that is not streamed."""
    with translated(origin):
        async with open_client(origin.endpoint) as client:
            response = await client.post(url, headers=dict(headers), json=body)
            if response.status_code != 200:
                raise origin.failure(response.status_code, response.headers, response.content)
            return parse_event(response.text, origin)


def open_client(endpoint: Endpoint) -> "httpx2.AsyncClient":
    """A client that follows no redirect, so that a key goes only where it was configured to go."""
    import httpx2  # noqa: PLC0415 - deferred: 0.1 s that a scripted run does not need

    timeout = httpx2.Timeout(endpoint.timeout, connect=endpoint.connect_timeout)
    if endpoint.base_url.lower().startswith("https:"):
        return httpx2.AsyncClient(timeout=timeout, follow_redirects=False)
    # No certificates are read for a server without TLS. A proxy with TLS would then be refused, not trusted blindly.
    return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


@contextmanager
def translated(origin: Origin) -> Iterator[None]:
    """Turns what httpx2 raises into our errors."""
    import httpx2  # noqa: PLC0415 - deferred: see `open_client`

    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise translate(error, origin) from error


def translate(error: Exception, origin: Origin) -> ProviderError:
    """Our error for one of httpx2's."""
    import httpx2  # noqa: PLC0415 - deferred: see `open_client`

    match error:
        case httpx2.ConnectTimeout():
            return unreachable(origin, f"no connection within {origin.endpoint.connect_timeout:g} s")
        case httpx2.TimeoutException():
            return silent(origin)
        case httpx2.ConnectError() | httpx2.ProxyError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return unreachable(origin, str(error) or type(error).__name__)
        case httpx2.LocalProtocolError():
            reason = tidy(str(error), origin.endpoint.key)
            return BadRequest(f"the request to {origin.model} cannot be sent: {reason}. Check `base_url`.")
        case _:
            return cut(origin)


def unreachable(origin: Origin, reason: str) -> Unreachable:
    return Unreachable(f"cannot reach `{origin.host}` for {origin.model}: {reason}. Check the network and `base_url`.")


def silent(origin: Origin) -> TimedOut:
    return TimedOut(f"{origin.model} said nothing for {origin.endpoint.timeout:g} s. Try again, or raise `timeout`.")


def cut(origin: Origin) -> StreamCut:
    return StreamCut(f"the answer of {origin.model} broke off before its end. Try again.")


async def drain(events: AsyncIterator[Json]) -> None:
    """Reads on to the end of a finished answer, so that the connection can serve the next request; not for long."""
    try:
        async with asyncio.timeout(0.25):
            async for _ in events:
                continue
    except (TimeoutError, ProviderError):  # the answer is whole: what becomes of the connection does not matter
        return
