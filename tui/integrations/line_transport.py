"""JSON-RPC over two pipes, one message per line. Invalid messages get an error response."""

import asyncio
import json
import os
import re
import stat
from collections.abc import Callable
from typing import IO, Any

from ebbtide.agent.errors import UsageError

Message = dict[str, Any]

CANCEL_REQUEST = "$/cancel_request"
PREFIXED_METHODS = frozenset({"session/delete"})
"""Protocol methods that the library does not support. They are renamed to start with `_`, because the library passes on
unknown methods only if their names have that prefix."""
MAX_MESSAGE_BYTES = 32 << 20
"""Maximum size of a message in bytes. This is more than providers accept in one request."""
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
NO_PIPES = "`ebb acp` needs pipes to an editor on stdin and stdout; see docs/editors.md"
_REQUEST_ID = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,\s*)*"id"\s*:\s*(\d+|"[^"\\]*")')


class LineTransport:
    """A transport for the `acp` library that filters out messages that the library cannot handle."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stop_reading: Callable[[], None]
    ) -> None:
        """`reader` must have the limit `MAX_MESSAGE_BYTES`. `stop_reading` ends the reader's input."""
        self._reader, self._writer, self.stop_reading = reader, writer, stop_reading
        self._session_by_request: dict[str | int, object] = {}
        """Session ids of prompts that have not been answered yet, by request id."""

    async def send(self, message: Message) -> None:
        """Send a message. Messages are sent in order. If the client has disconnected, `receive` reports it."""
        if "method" not in message:
            self._session_by_request.pop(message.get("id", ""), None)
        if self._writer.is_closing():
            return self.stop_reading()
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError:
            self.stop_reading()
        return None

    async def receive(self) -> Message | None:
        """Receive the next valid message; None at the end of the input."""
        while True:
            line, is_complete = await self._read_line()
            if not line:
                return None
            if not is_complete:
                id_match = _REQUEST_ID.match(line)
                problem = f"a message larger than {MAX_MESSAGE_BYTES >> 20} MB was ignored; send less"
                await self._send_error(INVALID_REQUEST, problem, json.loads(id_match[1]) if id_match else None)
            elif line.strip():
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError) as error:
                    await self._send_error(PARSE_ERROR, f"not valid JSON: {error}")
                    continue
                if _is_message(message):
                    if (message := self._convert_cancellation(message)) is None:
                        continue
                    prefixed_method = (
                        {"method": f"_{message['method']}"} if message.get("method") in PREFIXED_METHODS else {}
                    )
                    return {**message, **prefixed_method}
                await self._send_error(INVALID_REQUEST, "not a JSON-RPC 2.0 message; batches are not supported")

    def _convert_cancellation(self, message: Message) -> Message | None:
        """Convert the cancellation of a prompt request to a cancellation of its turn. Other `$/` messages are dropped.
        All remaining messages are returned unchanged."""
        method, params, message_id = message.get("method"), message.get("params"), message.get("id")
        if method == "session/prompt" and isinstance(message_id, str | int) and isinstance(params, dict):
            self._session_by_request[message_id] = params.get("sessionId")
        if message_id is not None or not isinstance(method, str) or not method.startswith("$/"):
            return message
        request_id = params.get("requestId") if isinstance(params, dict) else None
        session_id = self._session_by_request.get(request_id) if isinstance(request_id, str | int) else None
        first_request_id = next(
            (
                request
                for request, request_session_id in self._session_by_request.items()
                if request_session_id == session_id
            ),
            None,
        )
        if method != CANCEL_REQUEST or session_id is None or first_request_id != request_id:
            return None
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}}

    async def close(self) -> None:
        self._writer.close()

    async def _read_line(self) -> tuple[bytes, bool]:
        """Read a line. Also returns whether the line is complete. If a line is too long, only its start is returned."""
        beginning = b""
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                line = error.partial
            except asyncio.LimitOverrunError as error:
                skipped = await self._reader.readexactly(max(error.consumed, 1))
                beginning = beginning or skipped[:4096]
                continue
            return beginning or line, not beginning

    async def _send_error(self, code: int, message: str, request_id: object = None) -> None:
        await self.send({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


def _is_message(message: object) -> bool:
    """Whether the library can parse the message."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    return isinstance(message.get("id"), int | str | None) and isinstance(message.get("error") or {}, dict)


async def open_line_transport(stdin: IO[Any], stdout: IO[Any], error_message: str = NO_PIPES) -> LineTransport:
    """Open a transport over two pipes or sockets. Raises `UsageError` with `error_message` if they are neither."""
    for stream in (stdin, stdout):
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise UsageError(error_message)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
    write_protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    read_transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
    write_transport, _ = await loop.connect_write_pipe(lambda: write_protocol, stdout)
    return LineTransport(
        reader, asyncio.StreamWriter(write_transport, write_protocol, None, loop), read_transport.close
    )
