"""The SDK's messages over the pipes of a program. It stands in for the SDK's own transport, which joins a long line
again for every piece of it, holds however much a server prints, and tells nobody that a server has ended."""

import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from tools.child_process import Child, started
from tools.lines import Line, TooLong
from tools.mcp.log import ServerLog
from tools.mcp.spec import ServerSpec

_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""What a server finds in its environment without being given it. Keys and tokens of ours are not among it."""

_ID_AT_START = re.compile(rb'\A\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*,')
_ID_AT_END = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*\}\s*\Z')


@asynccontextmanager
async def stdio(spec: ServerSpec, log: ServerLog, lost: Callable[[str], None]) -> AsyncIterator[TransportStreams]:
    """Starts the program, and ends it with all its children. `lost` is told why it has ended, when it ended by itself.
    Raises `OSError` or `ValueError` when it cannot be started."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(spec.env)
    child = await started(spec.command, environment, spec.cwd, log, spec.most_bytes)
    pending = _Pending()
    try:
        yield _Incoming(child, pending, log, lost), _Outgoing(child, pending, lost)
    finally:
        await child.end()


class _Pending:
    """The requests that the server has not answered."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()

    def sent(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest():
                self._ids.add(message.id)
            case types.JSONRPCNotification(method="notifications/cancelled", params={"requestId": str() | int() as id}):
                self._ids.discard(id)

    def received(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCResponse(id=id) | types.JSONRPCError(id=str() | int() as id):
                self._ids.discard(id)

    def meant(self, head: bytes, tail: bytes) -> str | int | None:
        """The request that an unreadable line answers, as far as that can be told."""
        if b'"jsonrpc"' not in head and b'"jsonrpc"' not in tail:
            return None
        for found in (_ID_AT_START.search(head), _ID_AT_END.search(tail)):
            if found is not None and (id := json.loads(found[1])) in self._ids:
                return id if isinstance(id, str) else int(id)
        return next(iter(self._ids)) if len(self._ids) == 1 else None


class _Stream:
    """One direction. It ends nothing: the program is ended by whoever started it."""

    def __init__(self, child: Child, pending: _Pending, lost: Callable[[str], None]) -> None:
        self._child = child
        self._pending = pending
        self._lost = lost

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Incoming(_Stream):
    """What the program says, message by message. A line that is no message answers the request that it seems to be
    for, and is otherwise only written down."""

    def __init__(self, child: Child, pending: _Pending, log: ServerLog, lost: Callable[[str], None]) -> None:
        super().__init__(child, pending, lost)
        self._log = log

    async def receive(self) -> SessionMessage | Exception:
        while (line := await self._child.read()) is not None:
            if (message := self._message(line)) is not None:
                self._pending.received(message)
                return SessionMessage(message)
        self._lost(await self._child.ending())
        raise anyio.EndOfStream

    def _message(self, line: Line) -> types.JSONRPCMessage | None:
        if isinstance(line, TooLong):
            return self._unreadable(line.head, line.tail, f"it holds {line.size:,} bytes, which is too much")
        if not line.strip():
            return None
        try:
            return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return self._unreadable(bytes(line[:4096]), bytes(line[-4096:]), "it is not a valid message")

    def _unreadable(self, head: bytes, tail: bytes, why: str) -> types.JSONRPCMessage | None:
        self._log.write(b"[on its standard output] " + head[:1000].rstrip(b"\r\n") + b"\n")
        id = self._pending.meant(head, tail)
        if id is None:
            return None
        error = types.ErrorData(code=types.PARSE_ERROR, message=f"the answer cannot be read: {why}")
        return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class _Outgoing(_Stream):
    """What the program is told."""

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._pending.sent(item.message)
        try:
            self._child.write(text.encode("utf-8", "replace") + b"\n")
        except BrokenPipeError:
            self._lost(await self._child.ending())
            raise anyio.BrokenResourceError from None
        # Whoever cancels a call does not wait for a program that takes nothing.
        if not isinstance(item.message, types.JSONRPCNotification):
            await self._child.room()
