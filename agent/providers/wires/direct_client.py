"""An HTTP/1.1 client for servers that are reached without a proxy. It takes a tenth of the processor time of httpx2 to
load, and httpx2 would be a third of the start of a headless run. Responses are not decompressed."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote, urlsplit

from ebbtide.agent.errors import BadRequest
from ebbtide.agent.providers import wires
from ebbtide.agent.providers.wires.origin import Origin, stream_cut_error, timeout_error
from ebbtide.tools.lazy import dataclass

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
MAX_LINE_BYTES = 64 * 1024
_MAX_READ_BYTES = 64 * 1024
_MAX_BUFFERED_BYTES = 256 * 1024
"""Number of unread bytes above which the server has to wait."""

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


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """The status and headers of a response."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name. Values of repeated headers are joined by commas."""
    cookies: Sequence[tuple[str, str]]
    is_persistent: bool
    """Whether the server keeps the connection open after the response."""

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def content_length(self) -> int | None:
        """Length of the body in bytes; None if it ends with the connection. Raises `ValueError`."""
        if self.status in (204, 304):
            return 0
        lengths = {text.strip() for text in self.headers.get("content-length", "").split(",")}
        text = lengths.pop()
        if lengths or not (text == "" or (text.isascii() and text.isdigit())):
            raise ValueError("the content length is invalid")
        return int(text) if text else None


def parse_head(head: bytes) -> ResponseHead:
    """Parse the status line and headers of a response. Raises `ValueError`."""
    status_line, *lines = head.decode("latin-1").splitlines()
    version, _, status = status_line.partition(" ")
    headers: dict[str, str] = {}
    cookies = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            continue
        name, value = name.strip().lower(), value.strip()
        if name == "set-cookie":
            cookie_name, _, cookie_value = value.partition(";")[0].partition("=")
            cookies.append((cookie_name.strip(), cookie_value.strip()))
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    options = headers.get("connection", "").lower()
    is_persistent = "close" not in options and (version != "HTTP/1.0" or "keep-alive" in options)
    return ResponseHead(int(status[:3]), headers, cookies, is_persistent)


class Connection(asyncio.Protocol):
    """A connection to a server, for one request at a time. What has arrived before it broke can still be read."""

    transport: asyncio.Transport

    def __init__(self, server: _Server) -> None:
        self.server = server
        self._received = bytearray()
        self._has_ended = False
        self._has_news = asyncio.Event()
        """Whether anything has arrived since a reader began to wait."""
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._has_news.set()
        if len(self._received) > _MAX_BUFFERED_BYTES:
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
        self._has_ended = True
        self._has_news.set()
        self._can_write.set()

    async def write(self, data: bytes) -> None:
        """Send data. A server that rejects a large request may respond before all of it has been sent."""
        self.transport.write(data)
        await self._can_write.wait()

    async def read(self, limit: int) -> bytes:
        """Return at most `limit` bytes; none at the end."""
        while not self._received and not self._has_ended:
            await self._wait()
        return self._take(limit)

    async def read_line(self) -> bytes:
        """Return a line including its end, or what remains at the end of the connection. Raises `ValueError` if it is
        too long."""
        start = 0
        while (end := self._received.find(b"\n", start)) < 0 and not self._has_ended:
            start = len(self._received)
            if start > MAX_LINE_BYTES:
                raise ValueError("a line is too long")
            await self._wait()
        return self._take(end + 1 if end >= 0 else len(self._received))

    async def _wait(self) -> None:
        self._has_news.clear()
        self.transport.resume_reading()
        await self._has_news.wait()

    def _take(self, count: int) -> bytes:
        data = bytes(self._received[:count])
        del self._received[:count]
        return data

    def release(self) -> None:
        self._idle_since = time.monotonic()

    @property
    def is_usable(self) -> bool:
        """Whether the connection can be used for another request. If a server sends something unasked, it is about to
        close the connection."""
        is_recent = time.monotonic() - self._idle_since < IDLE_TIMEOUT_S
        return is_recent and not self._received and not self._has_ended

    def close(self) -> None:
        self.transport.abort()


class DirectResponse:
    """A response whose body has not been read."""

    def __init__(self, head: ResponseHead, connection: Connection, origin: Origin) -> None:
        self.status_code = head.status
        self.headers = head.headers
        self._head = head
        self._connection = connection
        self._origin = origin
        self._is_read = False

    @property
    def leaves_connection_usable(self) -> bool:
        return self._is_read and self._head.is_persistent

    async def aiter_bytes(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives. Raises `ProviderError`."""
        body = self._read_chunked() if self._head.is_chunked else self._read_plain()
        with _translate_broken_body(self._origin):
            async for piece in body:
                yield piece
        self._is_read = True

    async def aread(self) -> bytes:
        """Return the body. An error response is cut to `MAX_ERROR_BYTES`, since a server may send data endlessly."""
        if self.status_code != 200:
            return await read_prefix(b"", self.aiter_bytes(), MAX_ERROR_BYTES)
        return b"".join([piece async for piece in self.aiter_bytes()])

    async def _read_plain(self) -> AsyncGenerator[bytes, None]:
        remaining = self._head.content_length
        while remaining != 0:
            piece = await self._read_some(remaining)
            if not piece and remaining is None:
                return
            if remaining is not None:
                remaining = _subtract(remaining, piece)
            yield piece

    async def _read_chunked(self) -> AsyncGenerator[bytes, None]:
        while remaining := parse_chunk_size(await self._read_line()):
            while remaining:
                piece = await self._read_some(remaining)
                remaining = _subtract(remaining, piece)
                yield piece
            if await self._read_line() not in (b"\r\n", b"\n"):
                raise ValueError("a chunk is longer than its size")
        while (await self._read_line()).strip():  # further headers
            pass

    async def _read_some(self, limit: int | None) -> bytes:
        async with asyncio.timeout(self._origin.endpoint.timeout):
            return await self._connection.read(_MAX_READ_BYTES if limit is None else min(limit, _MAX_READ_BYTES))

    async def _read_line(self) -> bytes:
        async with asyncio.timeout(self._origin.endpoint.timeout):
            return await self._connection.read_line()


async def read_prefix(chunk: bytes, chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """Read the first `max_bytes` bytes of a document that begins with `chunk` and continues with `chunks`."""
    received_chunks, byte_count = [chunk], len(chunk)
    async for next_chunk in chunks:
        received_chunks.append(next_chunk)
        byte_count += len(next_chunk)
        if byte_count > max_bytes:
            break
    return b"".join(received_chunks)[:max_bytes]


def parse_chunk_size(line: bytes) -> int:
    """Parse the line before a chunk. Raises `ValueError`."""
    digits = line.partition(b";")[0].strip()
    if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", digits):
        raise ValueError("the size of a chunk is invalid")
    return int(digits, 16)


def _subtract(remaining: int, piece: bytes) -> int:
    """Return how many bytes are missing after a piece. Raises `EOFError` if it is empty, as the connection has
    ended."""
    if not piece:
        raise EOFError
    return remaining - len(piece)


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
        head = self._build_head(method, server, target, headers, len(content))
        connection = await self._connection(server)
        response = None
        try:
            response = await self._exchange(connection, head + content)
            yield response
        finally:
            if response is not None and response.leaves_connection_usable:
                connection.release()
                self._idle_connections.append(connection)
            else:
                connection.close()

    async def aclose(self) -> None:
        while self._idle_connections:
            self._idle_connections.pop().close()

    def _build_head(
        self, method: str, server: _Server, target: str, headers: Mapping[str, str], content_length: int
    ) -> bytes:
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
        lines = (f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", "")
        return "\r\n".join(lines).encode()

    async def _exchange(self, connection: Connection, request: bytes) -> DirectResponse:
        """Send a request and read the head of its response."""
        with _translate_broken_exchange(self._origin):
            async with asyncio.timeout(self._origin.endpoint.timeout):
                await connection.write(request)
            head = await self._read_head(connection)
        for name, value in head.cookies:
            self._cookies[name] = value
        return DirectResponse(head, connection, self._origin)

    async def _read_head(self, connection: Connection) -> ResponseHead:
        while True:
            async with asyncio.timeout(self._origin.endpoint.timeout):
                lines = await _read_head_lines(connection)
            if not lines[0]:
                raise EOFError
            if not lines[0].startswith(b"HTTP/"):
                raise wires.connection_errors.no_http_error(self._origin)
            head = parse_head(b"".join(lines))
            if head.status >= 200:
                return head

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


async def _read_head_lines(connection: Connection) -> list[bytes]:
    """Read lines to the first empty one. If the first line is not part of HTTP, only that is read. Raises `EOFError`
    and `ValueError`."""
    lines = [await connection.read_line()]
    byte_count = len(lines[0])
    while lines[0].startswith(b"HTTP/") and lines[-1].strip():
        lines.append(await connection.read_line())
        byte_count += len(lines[-1])
        if not lines[-1]:
            raise EOFError
        if byte_count > MAX_HEAD_BYTES:
            raise ValueError("the headers are too long")
    return lines


def split_url(url: str) -> tuple[_Server, str]:
    """Split an address into its server and the path and query that requests name."""
    parts = urlsplit(url)
    path = quote(parts.path or "/", safe=_TARGET_CHARS)
    query = f"?{quote(parts.query, safe=_TARGET_CHARS)}" if parts.query else ""
    return (parts.scheme, parts.hostname or "", parts.port or _default_port(parts.scheme)), f"{path}{query}"


def _default_port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


@contextmanager
def _translate_broken_exchange(origin: Origin) -> "Iterator[None]":
    """Convert the errors of a request without a response."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_error(origin) from error
    except (EOFError, OSError) as error:
        reason = "the connection was closed before a response"
        raise wires.connection_errors.unreachable_error(origin, reason) from error
    except ValueError as error:
        reason = f"its response is not valid HTTP: {error}"
        raise wires.connection_errors.unreachable_error(origin, reason) from error


@contextmanager
def _translate_broken_body(origin: Origin) -> "Iterator[None]":
    """Convert the errors of a response that has begun."""
    try:
        yield
    except TimeoutError as error:
        raise timeout_error(origin) from error
    except (EOFError, OSError, ValueError) as error:
        raise stream_cut_error(origin) from error
