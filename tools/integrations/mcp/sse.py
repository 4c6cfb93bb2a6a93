"""The older transport (SSE), which streamable HTTP has replaced. Events arrive in one long response, and messages are
posted to the address in the first event."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared._httpx_utils import request_within_origin, sse_within_origin
from mcp.shared.message import SessionMessage

from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.oauth import authorisation
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.streams import HalfStream
from ebbtide.tools.integrations.mcp.texts import one_line
from ebbtide.tools.integrations.mcp.transport import BoundedClient, status_text


@asynccontextmanager
async def open_sse(
    spec: ServerSpec, credentials_path: Path, handlers: ClientHandlers, allow_login: bool
) -> AsyncIterator[TransportStreams]:
    """Connect to an SSE server. If a message cannot be sent, only that request fails. Raises `ConnectionError` if the
    address does not respond with events.

    This replaces the SDK's own transport, which rejects events above 1 MiB and never answers a request that could not
    be sent.
    """
    async with (
        authorisation(spec, credentials_path, handlers, allow_login) as auth,
        BoundedClient(spec, auth) as client,
        sse_within_origin(client, spec.url, max_event_size=spec.max_result_bytes) as events,
    ):
        if events.response.status_code >= 400:
            raise ConnectionError(await _refusal_reason(events.response))
        writer, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        forward_task = asyncio.create_task(_forward_events(spec.url, events, writer, address))
        try:
            yield incoming, _PostStream(client, await address, writer)
        finally:
            forward_task.cancel()
            await asyncio.gather(forward_task, return_exceptions=True)
            incoming.close()


async def _forward_events(
    url: str,
    events: httpx2.EventSource,
    writer: MemoryObjectSendStream[SessionMessage | Exception],
    address: "asyncio.Future[str]",
) -> None:
    """Forward events until the stream ends."""
    problem = "it ended before it named an address"
    try:
        async for event in events:
            if event.event == "endpoint" and not address.done():
                message_url = urljoin(url, event.data)
                if urlsplit(message_url)[:2] != urlsplit(url)[:2]:
                    problem = f"it wants messages sent to another host: {one_line(message_url)}"
                    return
                address.set_result(message_url)
            elif event.event == "message" and event.data:
                with suppress(ValueError):  # invalid data is not an answer to any request
                    message = types.jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                    await writer.send(SessionMessage(message))
    except (httpx2.TransportError, httpx2.StreamError, httpx2.SSEError) as error:
        problem = f"it is incomplete: {one_line(str(error))}"
    finally:
        writer.close()
        if not address.done():
            address.set_exception(ConnectionError(problem))


class _PostStream(HalfStream):
    """The outgoing half of the connection."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, error_stream: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """`error_stream`: gets an error for each request that could not be sent."""
        self._client = client
        self._address = address
        self._error_stream = error_stream

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        problem = ""
        try:
            response = await request_within_origin(self._client, "POST", self._address, json=text)
            if response.status_code >= 300:
                problem = await _refusal_reason(response)
        except httpx2.StreamError as error:
            problem = one_line(str(error))
        if problem and isinstance(item.message, types.JSONRPCRequest):
            error_data = types.ErrorData(code=types.INTERNAL_ERROR, message=problem)
            error_message = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error_data)
            with suppress(anyio.ClosedResourceError):  # the event stream has ended, and the request with it
                await self._error_stream.send(SessionMessage(error_message))


async def _refusal_reason(response: httpx2.Response) -> str:
    """Return why the server refused a request. If the server was unreachable, `BoundedClient` has put the reason in the
    response as JSON."""
    with suppress(ValueError, KeyError, TypeError, RecursionError, httpx2.StreamError):
        return one_line(str(json.loads(await response.aread())["error"]["message"]))
    return status_text(response)
