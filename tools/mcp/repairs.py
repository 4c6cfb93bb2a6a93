"""What servers say, put right before the SDK reads it: it refuses a whole list for one entry, and takes some errors of
a server for a broken connection."""

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ValidationError

from tools.mcp.streams import IncomingStream
from tools.mcp.texts import one_line

_OF_THE_SDK = "SSE stream "
"""How the SDK's own errors of a connection begin, where it puts them among the server's."""
_PROGRESS_EVERY = 0.05
"""Seconds between two signs of progress of a call that are handed on."""
_MOST_TOKENS = 100
_LISTS: dict[str, type[BaseModel]] = {
    "tools": types.Tool,
    "resources": types.Resource,
    "resourceTemplates": types.ResourceTemplate,
    "prompts": types.Prompt,
}


class Repaired(IncomingStream):
    """The incoming half of a connection, its messages put right."""

    def __init__(
        self,
        stream: ReadStream[Any],
        hear: Callable[[str], None],
        leave_out: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        """`hear` is told the method of every notification; `leave_out`, why an entry of a list is missing; `lost`, that
        nothing more comes."""
        self._stream = stream
        self._hear = hear
        self._leave_out = leave_out
        self._lost = lost
        self._progress: dict[str, float] = {}
        """When the progress of each call was handed on."""

    @property
    def last_context(self) -> object:
        """What the SDK hands along with a message, between its own tasks."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._lost("its connection has ended")
                raise
            if not isinstance(item, SessionMessage):
                return item  # type: ignore[no-any-return]  # the stream's own items
            if isinstance(item.message, types.JSONRPCNotification):
                if self._is_too_soon(item.message):
                    continue
                self._hear(item.message.method)
            repair(item.message, self._leave_out)
            return item

    def _is_too_soon(self, told: types.JSONRPCNotification) -> bool:
        """Whether it is progress right behind progress: the SDK takes a millisecond for each, whatever is shown."""
        if told.method != "notifications/progress" or told.params is None:
            return False
        token, now = str(told.params.get("progressToken")), anyio.current_time()
        is_soon = now - self._progress.get(token, 0.0) < _PROGRESS_EVERY
        if not is_soon:
            self._progress = {**(self._progress if len(self._progress) < _MOST_TOKENS else {}), token: now}
        return is_soon

    async def aclose(self) -> None:
        await self._stream.aclose()


def repaired(
    streams: TransportStreams,
    hear: Callable[[str], None],
    leave_out: Callable[[str], None],
    lost: Callable[[str], None],
) -> TransportStreams:
    """The same streams, with what comes in put right."""
    incoming, outgoing = streams
    return Repaired(incoming, hear, leave_out, lost), outgoing


def repair(message: types.JSONRPCMessage, leave_out: Callable[[str], None]) -> None:
    """Puts one message right."""
    match message:
        case types.JSONRPCError(error=error) if error.code == types.CONNECTION_CLOSED:
            # A code that is free for servers to use, and the SDK's own for a connection that is over.
            if not error.message.startswith(_OF_THE_SDK):
                error.code = types.INTERNAL_ERROR
        case types.JSONRPCResponse(result=result) if "content" not in result:
            for name, kind in _LISTS.items():
                if isinstance(listed := result.get(name), list):
                    result[name] = [each for each in listed if _is_sound(each, kind, leave_out)]
    if isinstance(message, types.JSONRPCResponse):
        _repair_output(message.result)


def _repair_output(result: dict[str, Any]) -> None:
    """What a call gave back, where its blocks are missing, or its structured content is no object."""
    structured = result.get("structuredContent")
    if result.get("content") is None and (structured is not None or "isError" in result or not result):
        result["content"] = []
    if structured is not None and not isinstance(structured, dict):
        result["structuredContent"] = {"result": structured}


def _is_sound(entry: object, kind: type[BaseModel], leave_out: Callable[[str], None]) -> bool:
    """Whether the SDK takes an entry of a list. A tool that says nothing of its arguments takes none."""
    if kind is types.Tool and isinstance(entry, dict) and entry.get("inputSchema") is None:
        entry["inputSchema"] = {"type": "object", "properties": {}}
    try:
        kind.model_validate(entry, by_name=False)
    except ValidationError as error:
        name = entry.get("name") if isinstance(entry, dict) else None
        label = f"`{one_line(str(name))}`" if name else f"a {kind.__name__.lower()} without a name"
        leave_out(f"{label} is left out: {first_fault(error)}")
        return False
    return True


def first_fault(error: ValidationError) -> str:
    """Where and what is wrong, without the library's own advice."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return one_line(f"`{'.'.join(map(str, fault['loc']))}`: {fault['msg']}")
