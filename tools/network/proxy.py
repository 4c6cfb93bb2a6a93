"""The proxy through which sandboxed commands reach the network. It forwards HTTP requests, and opens tunnels for
everything else.

Each request is checked individually, and a connection carries only one request or one tunnel, so that nothing can be
smuggled in after a permitted request. A host name is resolved only after the host was permitted, because a lookup can
itself leak data.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.network.destinations import NetworkDestination
from ebbtide.tools.network.http_head import (
    HEAD_END,
    MAX_HEAD_BYTES,
    InvalidHeadError,
    ProxyRequest,
    parse_request,
    parse_response,
)

MAX_CONNECTIONS = 128
"""Maximum number of simultaneous connections. Further connections get an error and are closed."""
HEAD_TIMEOUT_S = 10.0
"""Seconds within which a client must send its request header."""
MAX_SILENCE_S = 300.0
"""Seconds without data after which a response is aborted. Does not apply to tunnels."""
_CHUNK_BYTES = 65_536
_MAX_REASON_CHARS = 300
_LINGER_S = 2.0
"""Seconds that a refused client is given to finish sending."""
_MAX_UNREAD_BYTES = 1 << 20
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,10})(?:[ \t]*;[^\r\n]*)?\r\n")


@dataclass(frozen=True, slots=True)
class UpstreamConnection:
    """A connection to a host, or to another proxy on the way to it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_proxy: bool = False
    """Whether the connection is to a proxy, which takes absolute URLs."""


class UnreachableError(Exception):
    """Raised if a permitted host could not be reached. The message says why."""


class ForbiddenAddressError(UnreachableError):
    """Raised if a permitted name resolves to a forbidden address."""


Connect: TypeAlias = Callable[[NetworkDestination, bool], Awaitable[UpstreamConnection]]
"""Connects to a destination. The second argument says whether a tunnel is needed. Raises `UnreachableError`."""


class ProxyClient(Protocol):
    """A client of the proxy. Its access is checked."""

    async def refusal_reason(self, destination: NetworkDestination) -> str:
        """Return why access to a destination is refused. Empty if it is permitted."""

    def record_failure(self, destination: NetworkDestination, reason: str) -> None:
        """Record why a destination was refused or could not be reached."""


class ProxyServer:
    """Serves the connections of a listening socket until closed."""

    def __init__(
        self, connect: Connect, get_client: Callable[[str], ProxyClient | None], head_timeout: float = HEAD_TIMEOUT_S
    ) -> None:
        """`get_client`: returns the client that the connection's local address was assigned to."""
        self._connect = connect
        self._get_client = get_client
        self._head_timeout = head_timeout
        self._server: asyncio.Server | None = None
        self._connection_tasks = set[asyncio.Task[None]]()

    async def start(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=MAX_HEAD_BYTES)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connection_tasks:
            task.cancel()
        await asyncio.gather(*self._connection_tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connection_tasks) >= 2 * MAX_CONNECTIONS:
            return writer.transport.abort()
        task = asyncio.create_task(
            self._handle_connection(reader, writer, is_over_limit=len(self._connection_tasks) >= MAX_CONNECTIONS)
        )
        self._connection_tasks.add(task)
        task.add_done_callback(self._connection_tasks.discard)

    async def _handle_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_over_limit: bool
    ) -> None:
        try:
            if is_over_limit:
                await _send_error(reader, writer, 503, "too many connections at once: wait for others to end")
            else:
                await self._serve(reader, writer)
        except OSError:  # a client that disconnects gets no response
            pass
        finally:
            await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = self._get_client(writer.get_extra_info("sockname")[0])
        try:
            async with asyncio.timeout(self._head_timeout):
                request = parse_request(await reader.readuntil(HEAD_END))
        except TimeoutError:
            return await _send_error(reader, writer, 408, "the request did not arrive in time")
        except asyncio.LimitOverrunError:
            return await _send_error(reader, writer, 431, "the request header is too long")
        except asyncio.IncompleteReadError:
            return None
        except InvalidHeadError as error:
            return await _send_error(reader, writer, 400, str(error))
        if client is None:
            return await _send_error(reader, writer, 403, "use the proxy that the command's environment sets")
        if refusal := await client.refusal_reason(request.destination):
            client.record_failure(request.destination, refusal)
            return await _send_error(reader, writer, 403, refusal)
        try:
            connection = await self._connect(request.destination, request.method == "CONNECT")
        except UnreachableError as error:
            client.record_failure(request.destination, str(error))
            return await _send_error(
                reader, writer, 403 if isinstance(error, ForbiddenAddressError) else 502, str(error)
            )
        try:
            if request.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _tunnel(UpstreamConnection(reader, writer), connection)
            else:
                await _exchange(request, UpstreamConnection(reader, writer), connection)
        finally:
            await _close(connection.writer)


async def _tunnel(client: UpstreamConnection, server: UpstreamConnection) -> None:
    """Forward bytes in both directions. A side that has finished sending keeps receiving until the other side
    pauses."""
    upload, download = (client.reader, server.writer), (server.reader, client.writer)
    tasks = [asyncio.create_task(_forward_bytes(*direction)) for direction in (upload, download)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        upload_result, download_result = await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(TimeoutError):
        if isinstance(
            download_result, asyncio.CancelledError
        ):  # the server may still be replying although it reads no more
            await _forward_bytes(*download, MAX_SILENCE_S)
        elif download_result is None and isinstance(upload_result, asyncio.CancelledError):
            await _forward_bytes(*upload, MAX_SILENCE_S)


async def _forward_bytes(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_silence_s: float | None = None
) -> None:
    """Copy data until the end of the input."""
    while True:
        async with asyncio.timeout(max_silence_s):
            data = await reader.read(_CHUNK_BYTES)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _exchange(request: ProxyRequest, client: UpstreamConnection, server: UpstreamConnection) -> None:
    """Forward one request and its response."""
    server.writer.write(request.absolute_head if server.is_proxy else request.head)
    request_task = asyncio.create_task(_send_body(client.reader, server.writer, request.body_length))
    response_task = asyncio.create_task(_forward_response(server.reader, client.writer))
    try:
        await asyncio.wait({request_task, response_task}, return_when=asyncio.FIRST_COMPLETED)
        if not (request_task.done() and isinstance(request_task.exception(), InvalidHeadError)):
            await asyncio.wait({response_task})
    finally:
        for task in (request_task, response_task):
            task.cancel()
        request_result, response_result = await asyncio.gather(request_task, response_task, return_exceptions=True)
    if isinstance(request_result, InvalidHeadError):
        await _send_error(client.reader, client.writer, 400, str(request_result))
    elif isinstance(response_result, InvalidHeadError):
        problem = f"`{request.destination}` sent an invalid HTTP response: {response_result}"
        await _send_error(client.reader, client.writer, 502, problem)
    elif isinstance(response_result, asyncio.IncompleteReadError | asyncio.LimitOverrunError):
        await _send_error(
            client.reader, client.writer, 502, f"`{request.destination}` did not send a complete response"
        )


async def _send_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int | None) -> None:
    """Forward exactly `length` bytes, or chunks after verifying their sizes. Raises `InvalidHeadError`."""
    if length is not None:
        return await _forward_length(reader, writer, length)
    while True:
        size = await _read_chunk_size(reader)
        writer.write(b"%x\r\n" % size)
        await _forward_length(reader, writer, size)
        if size and await reader.read(1) + await reader.read(1) != b"\r\n":
            raise InvalidHeadError("a chunk has the wrong length")
        writer.write(b"\r\n")
        if not size:  # trailers are dropped
            return await writer.drain()


async def _read_chunk_size(reader: asyncio.StreamReader) -> int:
    try:
        match = _CHUNK_SIZE.match(await reader.readuntil(b"\r\n"))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        match = None
    if match is None:
        raise InvalidHeadError("a chunk has no length")
    return int(match[1], 16)


async def _forward_length(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, remaining: int) -> None:
    while remaining:
        data = await reader.read(min(remaining, _CHUNK_BYTES))
        if not data:
            raise InvalidHeadError("its body ended too early")
        remaining -= len(data)
        writer.write(data)
        await writer.drain()


async def _forward_response(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward the response, including any interim responses before it."""
    while True:
        async with asyncio.timeout(MAX_SILENCE_S):
            response = parse_response(await reader.readuntil(HEAD_END))
        if response.status == 101:
            raise InvalidHeadError("it switches the protocol")
        writer.write(response.head if response.status >= 200 else response.head.replace(b"Connection: close\r\n", b""))
        if response.status >= 200:
            return await _forward_bytes(reader, writer, MAX_SILENCE_S)


async def _send_error(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int, why: str) -> None:
    """Send an error. The reason is also in the status line, because many programs show nothing else."""
    reason = "".join(character if " " <= character <= "~" else "?" for character in why)[:_MAX_REASON_CHARS]
    body = f"{why}\n".encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    writer.write_eof()
    remaining = _MAX_UNREAD_BYTES
    with suppress(TimeoutError):  # closing while data still arrives would discard the response
        async with asyncio.timeout(_LINGER_S):
            while remaining > 0 and (data := await reader.read(_CHUNK_BYTES)):
                remaining -= len(data)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Send the buffered data, waiting only for a limited time, and then close the connection. If the session is ending,
    close it at once."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return writer.transport.abort()
    writer.close()
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass
    finally:
        writer.transport.abort()
