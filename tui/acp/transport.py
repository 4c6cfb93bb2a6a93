"""JSON-RPC messages, one per line, over two pipes. Invalid messages get an error response."""

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
"""Protocol methods that the library does not route; it passes on names that start with `_`."""
MAX_MESSAGE_BYTES = 32 << 20
"""Maximum bytes of a message: providers accept no more in one request."""
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
NO_PIPES = "`ebb acp` speaks to an editor through pipes, and these are none; see docs/editors.md"
_ID = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,\s*)*"id"\s*:\s*(\d+|"[^"\\]*")')


class LineTransport:
    """A transport for `acp` that filters messages which the library cannot handle."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: Callable[[], None]) -> None:
        """`reader` has the limit `MAX_MESSAGE_BYTES`; `end` ends its input."""
        self._reader, self._writer, self.end = reader, writer, end
        self._prompts: dict[str | int, object] = {}
        """Session ids of unanswered prompts, by request id."""

    async def send(self, message: Message) -> None:
        """Send messages in order. A disconnected client is reported by `receive`."""
        if "method" not in message:
            self._prompts.pop(message.get("id", ""), None)
        if self._writer.is_closing():
            return self.end()
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError:
            self.end()
        return None

    async def receive(self) -> Message | None:
        """The next valid message; None at the end."""
        while True:
            line, is_whole = await self._line()
            if not line:
                return None
            if not is_whole:
                asked = _ID.match(line)
                why = f"a message of more than {MAX_MESSAGE_BYTES >> 20} MB was not read: send less"
                await self._refuse(INVALID_REQUEST, why, json.loads(asked[1]) if asked else None)
            elif line.strip():
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError) as error:
                    await self._refuse(PARSE_ERROR, f"this is not JSON: {error}")
                    continue
                if _is_message(message):
                    if (message := self._route(message)) is None:
                        continue
                    unrouted = {"method": f"_{message['method']}"} if message.get("method") in PREFIXED_METHODS else {}
                    return {**message, **unrouted}
                await self._refuse(INVALID_REQUEST, "this is no message of JSON-RPC 2.0; batches are not taken")

    def _route(self, message: Message) -> Message | None:
        """The message. A cancellation of a prompt request becomes a cancellation of its turn, if that prompt started
        it. None for other `$/` messages, which may be ignored."""
        method, params, id = message.get("method"), message.get("params"), message.get("id")
        if method == "session/prompt" and isinstance(id, str | int) and isinstance(params, dict):
            self._prompts[id] = params.get("sessionId")
        if id is not None or not isinstance(method, str) or not method.startswith("$/"):
            return message
        asked = params.get("requestId") if isinstance(params, dict) else None
        session = self._prompts.get(asked) if isinstance(asked, str | int) else None
        first = next((one for one, its in self._prompts.items() if its == session), None)
        if method != CANCEL_REQUEST or session is None or first != asked:
            return None
        return {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}

    async def close(self) -> None:
        self._writer.close()

    async def _line(self) -> tuple[bytes, bool]:
        """A line; if too long its beginning, and False."""
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

    async def _refuse(self, code: int, why: str, asked: object = None) -> None:
        await self.send({"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": why}})


def _is_message(message: object) -> bool:
    """Whether the library can parse it."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    return isinstance(message.get("id"), int | str | None) and isinstance(message.get("error") or {}, dict)


async def pipes(stdin: IO[Any], stdout: IO[Any], otherwise: str = NO_PIPES) -> LineTransport:
    """The transport over two pipes or sockets. Raises `UsageError` with the text `otherwise` if they are not."""
    for stream in (stdin, stdout):
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise UsageError(otherwise)
    loop = asyncio.get_running_loop()
    reader, drained = (
        asyncio.StreamReader(limit=MAX_MESSAGE_BYTES),
        asyncio.StreamReaderProtocol(asyncio.StreamReader()),
    )
    coming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
    going, _ = await loop.connect_write_pipe(lambda: drained, stdout)
    return LineTransport(reader, asyncio.StreamWriter(going, drained, None, loop), coming.close)
