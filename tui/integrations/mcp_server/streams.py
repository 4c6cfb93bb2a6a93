"""Adapts the transport to the streams of the MCP library."""

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ebbtide.tools.integrations.mcp.streams import HalfStream, IncomingStream
from ebbtide.tui.integrations.line_transport import INVALID_REQUEST, LineTransport


class ClientInput(IncomingStream):
    """The stream of messages from the client. Invalid messages get an error response."""

    def __init__(self, transport: LineTransport) -> None:
        self._transport = transport

    async def receive(self) -> SessionMessage:
        while (message := await self._transport.receive()) is not None:
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
            except ValidationError:
                request_id = message.get("id")
                await self._transport.send(
                    {
                        "jsonrpc": "2.0",
                        "id": request_id if isinstance(request_id, int | str) else None,
                        "error": {"code": INVALID_REQUEST, "message": "not a JSON-RPC 2.0 message"},
                    }
                )
        raise anyio.EndOfStream


class ClientOutput(HalfStream):
    """The stream of messages to the client."""

    def __init__(self, transport: LineTransport) -> None:
        self._transport = transport

    async def send(self, item: SessionMessage, /) -> None:
        await self._transport.send(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))
