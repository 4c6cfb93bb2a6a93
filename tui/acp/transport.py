"""JSON-RPC messages, one a line, from a pipe and to another. What is no message is answered and does no harm."""

import asyncio
import json
import os
import re
import stat
from collections.abc import Callable
from typing import IO, Any

from agent.errors import UsageError

Message = dict[str, Any]

UNROUTED = frozenset({"session/delete"})
"""Methods of the protocol that the library has no way for; it passes on what begins with `_`."""
LARGEST = 32 << 20
"""Bytes of one message: providers take no more in one request."""
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
NO_PIPES = "`ebb acp` speaks to an editor through pipes, and these are none; see docs/editors.md"
_ID = re.compile(rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"]*"\s*,\s*)*"id"\s*:\s*(\d+|"[^"\\]*")')


class LineTransport:
    """What `acp` calls a transport: it moves messages. Those that the library could not deal with stay here."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: Callable[[], None]) -> None:
        """`reader` has the limit of `LARGEST`; `end` ends what it reads."""
        self._reader, self._writer, self.end = reader, writer, end

    async def send(self, message: Message) -> None:
        """Messages leave in the order of the calls. Who takes none any more has gone, which `receive` tells."""
        if self._writer.is_closing():
            return self.end()
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError:
            self.end()
        return None

    async def receive(self) -> Message | None:
        """The next message that is one; None at the end."""
        while True:
            line, is_whole = await self._line()
            if not line:
                return None
            if not is_whole:
                asked = _ID.match(line)
                why = f"a message of more than {LARGEST >> 20} MB was not read: send less"
                await self._refuse(INVALID_REQUEST, why, json.loads(asked[1]) if asked else None)
            elif line.strip():
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError) as error:
                    await self._refuse(PARSE_ERROR, f"this is not JSON: {error}")
                    continue
                if _is_message(message):
                    unrouted = {"method": f"_{message['method']}"} if message.get("method") in UNROUTED else {}
                    return {**message, **unrouted}
                await self._refuse(INVALID_REQUEST, "this is no message of JSON-RPC 2.0; batches are not taken")

    async def close(self) -> None:
        self._writer.close()

    async def _line(self) -> tuple[bytes, bool]:
        """A line; of one that is too long its beginning, and False."""
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
    """Whether the library can take it apart."""
    if not isinstance(message, dict):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    return isinstance(message.get("id"), int | str | None) and isinstance(message.get("error") or {}, dict)


async def pipes(stdin: IO[Any], stdout: IO[Any], otherwise: str = NO_PIPES) -> LineTransport:
    """The transport over two pipes or sockets. Raises `UsageError`, which says `otherwise`, where they are none."""
    for stream in (stdin, stdout):
        mode = os.fstat(stream.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            raise UsageError(otherwise)
    loop = asyncio.get_running_loop()
    reader, drained = asyncio.StreamReader(limit=LARGEST), asyncio.StreamReaderProtocol(asyncio.StreamReader())
    coming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stdin)
    going, _ = await loop.connect_write_pipe(lambda: drained, stdout)
    return LineTransport(reader, asyncio.StreamWriter(going, drained, None, loop), coming.close)
