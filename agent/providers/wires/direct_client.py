"""An HTTP/1.1 client for servers that are reached without a proxy: h11, which httpx2 uses too, on asyncio. It takes a
tenth of the processor time of httpx2 to load, which would be a third of the start of a headless run. Responses are not
decompressed."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote, urlsplit

import h11

from ebbtide.agent.errors import BadRequest
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error, timeout_error

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes read from an error response."""
MAX_HEAD_BYTES = 128 * 1024
"""Maximum size of a response's status line and headers."""
IDLE_TIMEOUT_S = 5.0
"""Seconds for which an idle connection can be reused, as in httpx2. Some servers close it after that."""
_HAPPY_EYEBALLS_DELAY_S = 0.25
"""Seconds after which the next address of a host is tried as well, as RFC 8305 recommends."""
_MAX_UNREAD_BYTES = 256 * 1024
"""Number of unread bytes above which the server has to wait."""
_FIRST_BYTES = b"HTTP/"
"""What every response begins with."""

_CLOSED_EARLY = "the connection was closed before a response"
_PLAIN_URL = r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?(/[^\s#@]*)?(\?[^\s#@]*)?"
"""Addresses that need none of the rules of httpx2: neither user names nor international host names."""
_TARGET_CHARS = "/?:@!$&'()*+,;=-._~%[]"
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")

_Server: TypeAlias = tuple[str, str, int]
"""Scheme, host and port."""


def can_connect_directly(url: str) -> bool:
    """Whether requests to this address can be sent by a `DirectClient`. httpx2 knows the rules of `NO_PROXY`, and the
    proxies and certificates that macOS manages."""
    if sys.platform != "linux" or any(os.environ[name] for name in os.environ if name.lower() in _PROXY_VARIABLES):
        return False
    return re.fullmatch(_PLAIN_URL, url, re.I | re.A) is not None and _has_valid_port(url)


def _has_valid_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


class Connection(asyncio.Protocol):
    """A connection to a server, for one request at a time. What has arrived before it broke can still be read."""

    transport: asyncio.Transport

    def __init__(self, server: _Server) -> None:
        self.server = server
        self.is_http = True
        """Whether what arrived first may be an HTTP response."""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._first_bytes = b""
        self._unread_bytes = 0
        self._has_ended = False
        self._has_news = asyncio.Event()
        """Whether anything has arrived since a reader began to wait."""
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if len(self._first_bytes) < len(_FIRST_BYTES):
            self._first_bytes = (self._first_bytes + data)[: len(_FIRST_BYTES)]
            self.is_http = _FIRST_BYTES.startswith(self._first_bytes)
        self._http.receive_data(data)
        self._has_news.set()
        self._unread_bytes += len(data)
        if self._unread_bytes > _MAX_UNREAD_BYTES:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def _end(self) -> None:
        if not self._has_ended:
            self._http.receive_data(b"")
        self._has_ended = True
        self._has_news.set()
        self._can_write.set()

    async def send(self, request: h11.Request, content: bytes) -> None:
        """Send a request. A server that rejects a large one may respond before all of it has been sent."""
        events = (request, h11.Data(content), h11.EndOfMessage())
        self.transport.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._can_write.wait()

    async def read_event(self) -> h11.Event:
        """Return the next part of the response. Raises `EOFError` if the connection ends before a response, and
        `h11.RemoteProtocolError`."""
        while True:
            if self._has_ended and not self._first_bytes:
                raise EOFError
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._wait()
            elif isinstance(event, h11.Event) and not isinstance(event, h11.ConnectionClosed):
                return event
            else:
                raise EOFError

    async def _wait(self) -> None:
        self._has_news.clear()
        self._unread_bytes = 0
        self.transport.resume_reading()
        await self._has_news.wait()

    def release(self) -> bool:
        """Prepare the connection for another request. Return whether that is possible, because the response was read
        to its end and the server keeps the connection open."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._idle_since = time.monotonic()
        return True

    @property
    def is_usable(self) -> bool:
        """Whether the connection can be used for another request. If a server sends something unasked, it is about to
        close the connection."""
        is_recent = time.monotonic() - self._idle_since < IDLE_TIMEOUT_S
        return is_recent and not self._http.trailing_data[0] and not self._has_ended

    def close(self) -> None:
        self.transport.abort()


class DirectResponse:
    """A response whose body has not been read."""

    def __init__(self, head: h11.Response, connection: Connection, origin: Origin) -> None:
        self.status_code = head.status_code
        self.headers = join_headers(head.headers)
        self._connection = connection
        self._origin = origin

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives. Raises `ProviderError`."""
        with _translate_broken_body(self._origin):
            while True:
                async with asyncio.timeout(self._origin.endpoint.timeout):
                    event = await self._connection.read_event()
                if not isinstance(event, h11.Data):
                    return
                yield bytes(event.data)

    async def aread(self) -> bytes:
        """Return the body. An error response is cut to `MAX_ERROR_BYTES`, since a server may send data endlessly."""
        if self.status_code != 200:
            return await read_prefix(b"", self.aiter_bytes(), MAX_ERROR_BYTES)
        return b"".join([piece async for piece in self.aiter_bytes()])


def join_headers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name. Values of repeated headers are joined by commas."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in fields:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def read_prefix(chunk: bytes, chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """Read the first `max_bytes` bytes of a document that begins with `chunk` and continues with `chunks`."""
    received_chunks, byte_count = [chunk], len(chunk)
    async for next_chunk in chunks:
        received_chunks.append(next_chunk)
        byte_count += len(next_chunk)
        if byte_count > max_bytes:
            break
    return b"".join(received_chunks)[:max_bytes]


class DirectClient:
    """Sends requests to a server without a proxy. Follows no redirects, and reuses connections and cookies."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._idle_connections: list[Connection] = []
        self._tls_context: ssl.SSLContext | None = None
        self._cookies: dict[str, str] = {}
        """Of Cloudflare and of load balancers, which send later requests to the server that has their prefix cached."""

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes = b""
    ) -> AsyncIterator[DirectResponse]:
        """Send a request; return the response once its headers have arrived. Raises `ProviderError`."""
        server, target = split_url(url)
        request = self._build_request(method, server, target, headers, len(content))
        connection = await self._connection(server)
        try:
            yield await self._exchange(connection, request, content)
        finally:
            if connection.release():
                self._idle_connections.append(connection)
            else:
                connection.close()

    async def aclose(self) -> None:
        while self._idle_connections:
            self._idle_connections.pop().close()

    def _build_request(
        self, method: str, server: _Server, target: str, headers: Mapping[str, str], content_length: int
    ) -> h11.Request:
        scheme, host, port = server
        host_text = f"[{host}]" if ":" in host else host
        fields = {
            "host": host_text if port == _default_port(scheme) else f"{host_text}:{port}",
            "accept": "*/*",
            "accept-encoding": "gzip",
            "connection": "keep-alive",
            **{name.lower(): value for name, value in headers.items()},
        }
        if self._cookies:
            fields["cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        if content_length or method == "POST":
            fields["content-length"] = str(content_length)
        for name, value in fields.items():
            if not (value.isascii() and value.replace("\t", " ").isprintable()):
                reason = f"the header `{name}` contains invalid characters"
                raise BadRequest(f"the request to {self._origin.model} cannot be sent: {reason}. Check `base_url`.")
        return h11.Request(method=method, target=target, headers=list(fields.items()))

    async def _exchange(self, connection: Connection, request: h11.Request, content: bytes) -> DirectResponse:
        """Send a request and read the head of its response."""
        with _translate_broken_exchange(self._origin, connection):
            async with asyncio.timeout(self._origin.endpoint.timeout):
                await connection.send(request, content)
            head = await self._read_head(connection)
        for name, value in head.headers:
            if name == b"set-cookie":
                cookie_name, _, cookie_value = value.decode("latin-1").partition(";")[0].partition("=")
                self._cookies[cookie_name.strip()] = cookie_value.strip()
        return DirectResponse(head, connection, self._origin)

    async def _read_head(self, connection: Connection) -> h11.Response:
        while True:
            async with asyncio.timeout(self._origin.endpoint.timeout):
                event = await connection.read_event()
            if isinstance(event, h11.Response):
                return event

    async def _connection(self, server: _Server) -> Connection:
        """Return an idle or a new connection to the server."""
        idle = [connection for connection in self._idle_connections if connection.server == server]
        for connection in reversed(idle):
            self._idle_connections.remove(connection)
            if connection.is_usable:
                return connection
            connection.close()
        return await self._connect(server)

    async def _connect(self, server: _Server) -> Connection:
        scheme, host, port = server
        if scheme == "https" and self._tls_context is None:
            self._tls_context = await asyncio.to_thread(wires.certificates.create_tls_context)
        try:
            async with asyncio.timeout(self._origin.endpoint.connect_timeout):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(server),
                    host,
                    port,
                    ssl=self._tls_context if scheme == "https" else None,
                    happy_eyeballs_delay=_HAPPY_EYEBALLS_DELAY_S,
                )
        except (OSError, ValueError) as error:  # `ValueError`: host names that TLS rejects
            raise wires.connection_errors.connect_error(self._origin, error) from error
        return connection


def split_url(url: str) -> tuple[_Server, str]:
    """Split an address into its server and the path and query that requests name."""
    parts = urlsplit(url)
    path = quote(parts.path or "/", safe=_TARGET_CHARS)
    query = f"?{quote(parts.query, safe=_TARGET_CHARS)}" if parts.query else ""
    return (parts.scheme, parts.hostname or "", parts.port or _default_port(parts.scheme)), f"{path}{query}"


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


@contextmanager
def _translate_broken_exchange(origin: Origin, connection: Connection) -> "Iterator[None]":
    """Convert the errors of a request without a response."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_error(origin) from error
    except (EOFError, OSError) as error:
        raise wires.connection_errors.unreachable_error(origin, _CLOSED_EARLY) from error
    except h11.RemoteProtocolError as error:
        if not connection.is_http:
            raise wires.connection_errors.no_http_error(origin) from error
        if "closed connection" in str(error):
            raise wires.connection_errors.unreachable_error(origin, _CLOSED_EARLY) from error
        raise wires.connection_errors.unreachable_error(origin, f"its response is not valid HTTP: {error}") from error


@contextmanager
def _translate_broken_body(origin: Origin) -> "Iterator[None]":
    """Convert the errors of a response that has begun."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_error(origin) from error
    except (EOFError, OSError, h11.RemoteProtocolError) as error:
        raise stream_cut_error(origin) from error
