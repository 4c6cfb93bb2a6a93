"""Requests to servers at an address. No answer is larger than agreed, and one that does not come is an error of that
request alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from tools.mcp.spec import ServerSpec
from tools.name_lookup import look_up_aside

_ABOUT_US = (httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN)
_CONNECT = 10.0
"""Seconds. How long an answer may take is measured by whoever waits for it."""
_TELLING = 5.0
"""Seconds for a server to take what wants no answer."""


@asynccontextmanager
async def http(spec: ServerSpec, auth: httpx2.Auth | None = None) -> AsyncIterator[TransportStreams]:
    """The messages of a server that is asked over streamable HTTP."""
    async with (
        _Client(spec, auth) as client,
        streamable_http_client(spec.url, http_client=client, max_sse_event_size=spec.most_bytes) as streams,
    ):
        yield streams


class UnreadableAnswer(httpx2.StreamError):
    """An answer that is larger than agreed, or not whole."""


class _Client(httpx2.AsyncClient):
    def __init__(self, spec: ServerSpec, auth: httpx2.Auth | None) -> None:
        self._most = spec.most_bytes
        look_up_aside(asyncio.get_running_loop())
        super().__init__(
            # Compressed answers are not asked for: a small one may stand for gigabytes.
            headers={**spec.headers, "accept-encoding": "identity"},
            timeout=httpx2.Timeout(None, connect=_CONNECT),
            auth=auth,
            event_hooks={"response": [self._limit]},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401  # as httpx2 has it
        """As ever; only that a server that cannot be reached, or that answers with an error page, has answered with an
        error of the protocol. What is only told is not waited for long, since everything that comes after it waits."""
        try:
            async with asyncio.timeout(None if _is_asked(request) else _TELLING):
                response = await super().send(request, **options)
            if request.method != "POST" or response.status_code < 400 or _is_known(response):
                return response
            await response.aclose()
            return _failure(request, f"the server answers with HTTP {response.status_code} {response.reason_phrase}")
        except TimeoutError:
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        except httpx2.TransportError as error:
            return _failure(request, f"the server cannot be reached: {_said(error)}")

    async def _limit(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.RemoteProtocolError("it answers in a compressed form that was not asked for")
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Limited(response.stream, self._most)


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, most: int) -> None:  # noqa: ANN401  # httpx2 types it for both kinds of clients
        self._stream = stream
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > self._most:
                    raise UnreadableAnswer(f"it holds more than {self._most:,} bytes, which is too much")
                yield chunk
        except httpx2.TransportError as error:
            raise UnreadableAnswer(f"it is not whole: {_said(error)}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def _is_asked(request: httpx2.Request) -> bool:
    """Whether an answer is wanted, as it is of everything but notifications, answers of ours, and the farewell."""
    head = request.content[:200] if request.method == "POST" else b""
    return request.method not in ("POST", "DELETE") or (b'"method":' in head and b'"id":' in head)


def _is_known(response: httpx2.Response) -> bool:
    """Whether the SDK makes something of the status or of the error that comes with it."""
    is_json = response.headers.get("content-type", "").lower().startswith("application/json")
    return response.status_code == httpx2.codes.NOT_FOUND or (is_json and response.status_code not in _ABOUT_US)


def _failure(request: httpx2.Request, message: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": 0, "error": {"code": INTERNAL_ERROR, "message": message}}
    return httpx2.Response(
        502, headers={"content-type": "application/json"}, content=json.dumps(error).encode(), request=request
    )


def _said(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
