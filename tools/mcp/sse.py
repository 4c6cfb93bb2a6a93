"""The transport of servers from before streamable HTTP: events come on one long answer, and what is said to the server
goes to the address that its first event names."""

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

from ebbtide.tools.mcp.client_handlers import ClientHandlers
from ebbtide.tools.mcp.oauth import authorisation
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.mcp.streams import HalfStream
from ebbtide.tools.mcp.texts import one_line
from ebbtide.tools.mcp.transport import BoundedClient, status_of


@asynccontextmanager
async def sse(
    spec: ServerSpec, credentials: Path, handlers: ClientHandlers, with_user: bool
) -> AsyncIterator[TransportStreams]:
    """Listens at an address. What cannot be said is an error of that request alone. Raises `ConnectionError` when the
    address does not answer with events. The SDK's own takes no event above a mebibyte, and leaves a request whose
    sending failed without an answer."""
    async with (
        authorisation(spec, credentials, handlers, with_user) as auth,
        BoundedClient(spec, auth) as client,
        sse_within_origin(client, spec.url, max_event_size=spec.most_bytes) as events,
    ):
        if events.response.status_code >= 400:
            raise ConnectionError(await _refusal(events.response))
        writer, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        reading = asyncio.create_task(_read(spec.url, events, writer, address))
        try:
            yield incoming, _Outgoing(client, await address, writer)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            incoming.close()


async def _read(
    url: str,
    events: httpx2.EventSource,
    writer: MemoryObjectSendStream[SessionMessage | Exception],
    address: "asyncio.Future[str]",
) -> None:
    """Hands on what comes, until nothing does."""
    why = "it ended before it named an address"
    try:
        async for event in events:
            if event.event == "endpoint" and not address.done():
                named = urljoin(url, event.data)
                if urlsplit(named)[:2] != urlsplit(url)[:2]:
                    why = f"it wants to be spoken to at another host: {one_line(named)}"
                    return
                address.set_result(named)
            elif event.event == "message" and event.data:
                with suppress(ValueError):  # what is no message answers nothing
                    message = types.jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                    await writer.send(SessionMessage(message))
    except (httpx2.TransportError, httpx2.StreamError, httpx2.SSEError) as error:
        why = f"it is not whole: {one_line(str(error))}"
    finally:
        writer.close()
        if not address.done():
            address.set_exception(ConnectionError(why))


class _Outgoing(HalfStream):
    """What the server is told."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, answers: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """`answers`: where errors go of requests that could not be sent."""
        self._client = client
        self._address = address
        self._answers = answers

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        refused = ""
        try:
            response = await request_within_origin(self._client, "POST", self._address, json=text)
            if response.status_code >= 300:
                refused = await _refusal(response)
        except httpx2.StreamError as error:
            refused = one_line(str(error))
        if refused and isinstance(item.message, types.JSONRPCRequest):
            error_data = types.ErrorData(code=types.INTERNAL_ERROR, message=refused)
            answer = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error_data)
            with suppress(anyio.ClosedResourceError):  # the events have ended, and that is what the request ends with
                await self._answers.send(SessionMessage(answer))


async def _refusal(response: httpx2.Response) -> str:
    """Why the server did not do what it was asked; our own client says it in JSON where it could not be reached."""
    with suppress(ValueError, KeyError, TypeError, RecursionError, httpx2.StreamError):
        return one_line(str(json.loads(await response.aread())["error"]["message"]))
    return status_of(response)
