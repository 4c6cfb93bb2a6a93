"""Adapts the transport to the streams of the MCP library."""

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ebbtide.tools.mcp.streams import HalfStream, IncomingStream
from ebbtide.tui.acp.transport import INVALID_REQUEST, LineTransport


class FromClient(IncomingStream):
    """Messages of the client. Invalid ones get an error response."""

    def __init__(self, transport: LineTransport) -> None:
        self._transport = transport

    async def receive(self) -> SessionMessage:
        while (message := await self._transport.receive()) is not None:
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False))
            except ValidationError:
                asked = message.get("id")
                await self._transport.send(
                    {
                        "jsonrpc": "2.0",
                        "id": asked if isinstance(asked, int | str) else None,
                        "error": {"code": INVALID_REQUEST, "message": "this is no message of JSON-RPC 2.0"},
                    }
                )
        raise anyio.EndOfStream


class ToClient(HalfStream):
    """Messages to the client."""

    def __init__(self, transport: LineTransport) -> None:
        self._transport = transport

    async def send(self, item: SessionMessage, /) -> None:
        await self._transport.send(item.message.model_dump(by_alias=True, exclude_unset=True, mode="json"))
