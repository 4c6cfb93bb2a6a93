"""Transports of the SDK's messages: a program's standard input and output, or HTTP."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.oauth import authorisation
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.streams import HalfStream, IncomingStream
from ebbtide.tools.integrations.server_log import ServerLog
from ebbtide.tools.network.name_lookup import install_lookup_threads
from ebbtide.tools.process.child import Child, start_child
from ebbtide.tools.process.lines import OutputLine, TruncatedLine
from ebbtide.tools.process.shell import Launch

_INHERITED_VARIABLES = (
    "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "EBB_TASK_DEPTH",
)  # fmt: skip
"""Environment variables that a server inherits. They include no keys or tokens."""

_ID_AT_START = re.compile(rb'\A\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*,')
_ID_AT_END = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*\}\s*\Z')

_AUTH_STATUSES = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)
_SESSION_HEADER = "mcp-session-id"
_CONNECT_TIMEOUT_S = 10.0
"""Timeout for connecting, in seconds. Callers limit the time for an answer."""
_NOTIFY_TIMEOUT_S = 5.0
"""Timeout for a server to accept a message that needs no answer, in seconds."""


@asynccontextmanager
async def open_stdio(
    spec: ServerSpec, log: ServerLog, on_lost: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """Start a program. It is ended together with all its children. `on_lost` is called with the reason if it ends by
    itself. Raises `OSError` or `ValueError` if it cannot be started.

    This replaces the SDK's own transport, which takes quadratic time for long lines, buffers without limit, and does
    not report that a program has ended.
    """
    environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ} | dict(spec.env)
    launch = Launch(spec.command, environment)
    if spec.sandbox is not None:
        launch = spec.sandbox.wrap(launch, spec.cwd or spec.sandbox.root)
    child = await start_child(launch, spec.cwd, log, spec.max_result_bytes)
    pending = _PendingRequests()
    try:
        yield _StdoutStream(child, pending, log, on_lost), _StdinStream(child, pending, on_lost)
    finally:
        await child.end()


@asynccontextmanager
async def open_http(
    spec: ServerSpec,
    credentials_path: Path,
    handlers: ClientHandlers,
    allow_login: bool,
    on_post_response: Callable[[httpx2.Response], None],
) -> AsyncIterator[TransportStreams]:
    """Connect to a URL. Responses are limited in size. If a response is missing, only its own request fails.
    `allow_login`: log in if the server requires it. `on_post_response`: called with the response to each POST."""
    async with (
        authorisation(spec, credentials_path, handlers, allow_login) as auth,
        BoundedClient(spec, auth, on_post_response) as client,
        streamable_http_client(spec.url, http_client=client, max_sse_event_size=spec.max_result_bytes) as streams,
    ):
        yield streams


class _PendingRequests:
    """The requests that the server has not answered yet."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()

    def note_sent(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest():
                self._ids.add(message.id)
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as request_id}
            ):
                self._ids.discard(request_id)

    def note_received(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCResponse(id=request_id) | types.JSONRPCError(id=str() | int() as request_id):
                self._ids.discard(request_id)

    def guess_request(self, head: bytes, tail: bytes) -> str | int | None:
        """Guess which request an unreadable line answers, and return its id. None if unknown."""
        if b'"jsonrpc"' not in head and b'"jsonrpc"' not in tail:
            return None
        for match in (_ID_AT_START.search(head), _ID_AT_END.search(tail)):
            if match is not None and (request_id := json.loads(match[1])) in self._ids:
                return request_id if isinstance(request_id, str) else int(request_id)
        return next(iter(self._ids)) if len(self._ids) == 1 else None


class _StdoutStream(IncomingStream):
    """The program's messages. An invalid line counts as the answer to the request that it seems to refer to. If there
    is no such request, the line is only logged."""

    def __init__(self, child: Child, pending: _PendingRequests, log: ServerLog, on_lost: Callable[[str], None]) -> None:
        self._child = child
        self._pending = pending
        self._log = log
        self._on_lost = on_lost

    async def receive(self) -> SessionMessage | Exception:
        while (line := await self._child.read()) is not None:
            if (message := self._parse_message(line)) is not None:
                self._pending.note_received(message)
                return SessionMessage(message)
        self._on_lost(await self._child.end_reason())
        raise anyio.EndOfStream

    def _parse_message(self, line: OutputLine) -> types.JSONRPCMessage | None:
        if isinstance(line, TruncatedLine):
            return self._error_for_line(line.head, line.tail, f"it has {line.byte_count:,} bytes, which is too large")
        if not line.strip():
            return None
        try:
            return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            with suppress(ValueError, RecursionError):
                return types.jsonrpc_message_adapter.validate_json(_repair_unicode(bytes(line)), by_name=False)
            return self._error_for_line(bytes(line[:4096]), bytes(line[-4096:]), "it is not a valid message")

    def _error_for_line(self, head: bytes, tail: bytes, problem: str) -> types.JSONRPCMessage | None:
        self._log.write(b"[on its standard output] " + head[:1000].rstrip(b"\r\n") + b"\n")
        request_id = self._pending.guess_request(head, tail)
        if request_id is None:
            return None
        error = types.ErrorData(code=types.PARSE_ERROR, message=f"the answer cannot be read: {problem}")
        return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _repair_unicode(line: bytes) -> bytes:
    """Replace invalid bytes and lone surrogates in JSON. Raises `ValueError` if there are none or it is not JSON."""
    content = json.loads(line.decode("utf-8", "replace"))
    text = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    if text == line.strip():
        raise ValueError
    return text


class _StdinStream(HalfStream):
    """The outgoing half of the connection."""

    def __init__(self, child: Child, pending: _PendingRequests, on_lost: Callable[[str], None]) -> None:
        self._child, self._pending, self._on_lost = child, pending, on_lost

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._pending.note_sent(item.message)
        try:
            self._child.write(text.encode("utf-8", "replace") + b"\n")
        except BrokenPipeError:
            self._on_lost(await self._child.end_reason())
            raise anyio.BrokenResourceError from None
        # Notifications, such as those that cancel calls, do not wait if the program is not reading.
        if not isinstance(item.message, types.JSONRPCNotification):
            await self._child.wait_for_room()


class UnreadableResponseError(httpx2.StreamError):
    """Raised if a response is too large or incomplete."""


class BoundedClient(httpx2.AsyncClient):
    """An HTTP client that limits the size of responses."""

    def __init__(
        self,
        spec: ServerSpec,
        auth: httpx2.Auth | None,
        on_post_response: Callable[[httpx2.Response], None] = lambda _: None,
    ) -> None:
        self._max_bytes = spec.max_result_bytes
        self._on_post_response = on_post_response
        install_lookup_threads(asyncio.get_running_loop())
        super().__init__(
            # Refuse compression, because a small response could expand to gigabytes.
            headers={**spec.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=_CONNECT_TIMEOUT_S),
            auth=auth,
            event_hooks={"response": [self._limit_size]},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401  # as in httpx2
        """Send a request. If the server cannot be reached or returns an error page, return a response that contains a
        protocol error. Notifications have a short timeout, because later messages have to wait for them."""
        try:
            async with asyncio.timeout(None if _needs_answer(request) else _NOTIFY_TIMEOUT_S):
                response = await super().send(request, **options)
            if request.method == "POST":
                self._on_post_response(response)
            if response.status_code == httpx2.codes.BAD_REQUEST and await _rejects_session(request, response):
                return httpx2.Response(httpx2.codes.NOT_FOUND, request=request)
            if request.method != "POST" or response.status_code < 400 or _is_handled_by_sdk(response):
                return response
            await response.aclose()
            return _error_response(request, status_text(response))
        except TimeoutError:
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        except httpx2.TransportError as error:
            return _error_response(request, f"the server cannot be reached: {_transport_error_text(error)}")

    async def _limit_size(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.RemoteProtocolError("its answer is compressed, which was not requested")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _BoundedStream(response.stream, self._max_bytes)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, max_bytes: int) -> None:  # noqa: ANN401  # httpx2 uses one type for sync and async clients
        self._stream = stream
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        byte_count = 0
        try:
            async for chunk in self._stream:
                byte_count += len(chunk)
                if byte_count > self._max_bytes:
                    raise UnreadableResponseError(f"it has more than {self._max_bytes:,} bytes, which is too large")
                yield chunk
        except httpx2.TransportError as error:
            raise UnreadableResponseError(f"it is incomplete: {_transport_error_text(error)}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def _needs_answer(request: httpx2.Request) -> bool:
    """Whether the request needs an answer. Notifications, the client's own answers and the final DELETE need none."""
    head = request.content[:200] if request.method == "POST" else b""
    return request.method not in ("POST", "DELETE") or (b'"method":' in head and b'"id":' in head)


async def _rejects_session(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether a server rejects the client's session, as many do after a restart. The protocol uses 404 for this, which
    the SDK handles itself."""
    if _SESSION_HEADER not in request.headers:
        return False
    with suppress(ValueError, KeyError, TypeError, RecursionError, httpx2.StreamError):
        return "session" in str(json.loads(await response.aread())["error"]["message"]).lower()
    return False


def _is_handled_by_sdk(response: httpx2.Response) -> bool:
    """Whether the SDK can handle the response's status, or the error in it."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    return response.status_code == httpx2.codes.NOT_FOUND or (is_json and response.status_code not in _AUTH_STATUSES)


def _error_response(request: httpx2.Request, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": types.INTERNAL_ERROR, "message": message}}
    return httpx2.Response(
        502, headers={"content-type": "application/json"}, content=json.dumps(error).encode(), request=request
    )


def status_text(response: httpx2.Response) -> str:
    """Return the status of a response as a sentence."""
    return f"the server answers with HTTP {response.status_code} {response.reason_phrase}"


def _transport_error_text(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
