"""Repairs messages from servers before the SDK reads them. The SDK rejects a whole list because of one entry, and
mistakes some server errors for a broken connection."""

import json
from collections.abc import Callable, Collection
from typing import Any

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared._stream_protocols import ReadStream
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, TypeAdapter, ValidationError

from ebbtide.tools.mcp.streams import IncomingStream
from ebbtide.tools.mcp.texts import one_line

_OF_THE_SDK = "SSE stream "
"""Prefix of connection errors that the SDK reports as if they came from the server."""
_PROGRESS_EVERY = 0.05
"""Minimum number of seconds between progress notifications of a call that are forwarded."""
_MAX_TOKENS = 100
MAX_ENTRIES = 5_000
"""Maximum number of list entries. Outputs may have twice as many parts. Everything else waits while they are
checked."""
_MAX_ENTRY_CHARS = 1_000_000
"""Maximum number of characters in all strings of an entry."""
_MAX_QUESTIONS, _QUESTIONS_WINDOW_S = 500, 10.0
"""Maximum number of requests from a server per time window in seconds. Each must be answered, and a server that sends
more is broken."""
_FLOODS = "it sends more requests than can be answered"
_LISTS: dict[str, tuple[type[BaseModel], str]] = {
    "tools": (types.Tool, "tools/list"),
    "resources": (types.Resource, "resources/list"),
    "resourceTemplates": (types.ResourceTemplate, "resources/templates/list"),
    "prompts": (types.Prompt, "prompts/list"),
}
"""The entry type of each list, and the request that returns it."""
_BLOCKS: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)
_ENTRY_KEYS = frozenset({"name", "description", "inputSchema", "uri", "uriTemplate", "mimeType", "arguments"})
"""The essential keys of a list entry. All others are optional decoration."""
_CONTENTS = frozenset({"uri", "mimeType", "text", "blob"})
_BLOCK_KEYS = frozenset({"type", "text", "data", "mimeType", "resource", "uri", "name", "description"})
"""The essential keys of a part of an output."""
_VERSION = "2025-11-25"
"""The protocol version that entries are validated against. Other versions have the same essentials."""


class RepairedStream(IncomingStream):
    """The incoming half of a connection, with messages repaired."""

    def __init__(
        self,
        stream: ReadStream[Any],
        hear: Callable[[str], None],
        leave_out: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        """`hear` gets the method of every notification, `leave_out` the reason for each omitted list entry. `lost` is
        called when the stream ends."""
        self._stream = stream
        self._hear = hear
        self._leave_out = leave_out
        self._lost = lost
        self._progress: dict[str, float] = {}
        """Time of the last forwarded progress per call."""
        self._asked: tuple[float, int] = (0.0, 0)
        """Start of the time window for requests, and their number in it."""

    @property
    def last_context(self) -> object:
        """The context that the SDK passes along with messages between its tasks."""
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
            if isinstance(item.message, types.JSONRPCRequest) and self._is_too_much():
                self._lost(_FLOODS)
                raise anyio.EndOfStream
            repair(item.message, self._leave_out)
            return item

    def _is_too_much(self) -> bool:
        now, (since, count) = anyio.current_time(), self._asked
        self._asked = (since, count + 1) if now - since < _QUESTIONS_WINDOW_S else (now, 1)
        return self._asked[1] > _MAX_QUESTIONS

    def _is_too_soon(self, told: types.JSONRPCNotification) -> bool:
        """Whether progress follows too soon on other progress: the SDK takes a millisecond for each, even if it is not
        shown."""
        if told.method != "notifications/progress" or told.params is None:
            return False
        token, now = str(told.params.get("progressToken")), anyio.current_time()
        is_soon = now - self._progress.get(token, 0.0) < _PROGRESS_EVERY
        if not is_soon:
            self._progress = {**(self._progress if len(self._progress) < _MAX_TOKENS else {}), token: now}
        return is_soon

    async def aclose(self) -> None:
        await self._stream.aclose()


def repair_streams(
    streams: TransportStreams,
    hear: Callable[[str], None],
    leave_out: Callable[[str], None],
    lost: Callable[[str], None],
) -> TransportStreams:
    """Return the streams with incoming messages repaired."""
    incoming, outgoing = streams
    return RepairedStream(incoming, hear, leave_out, lost), outgoing


def repair(message: types.JSONRPCMessage, leave_out: Callable[[str], None]) -> None:
    """Repair one message."""
    match message:
        case types.JSONRPCError(error=error) if error.code == types.CONNECTION_CLOSED:
            # Servers may use this code freely, but the SDK uses it for a closed connection.
            if not error.message.startswith(_OF_THE_SDK):
                error.code = types.INTERNAL_ERROR
        case types.JSONRPCResponse(result=result) if "content" not in result:
            for name, (_, method) in _LISTS.items():
                if name in result and result[name] is None:
                    result[name] = []
                if isinstance(listed := result.get(name), list):
                    what = method.partition("/")[0]
                    if len(listed) > MAX_ENTRIES:
                        leave_out(f"it lists {len(listed):,} {what}, of which {MAX_ENTRIES:,} are used")
                    result[name] = [each for each in listed[:MAX_ENTRIES] if _is_sound(each, name, leave_out)]
    if isinstance(message, types.JSONRPCResponse):
        _repair_output(message.result)


def _repair_output(result: dict[str, Any]) -> None:
    """Repair a tool result whose blocks are missing, or whose structured content is not an object."""
    for name in ("content", "contents", "messages"):
        if isinstance(parts := result.get(name), list) and len(parts) > 2 * MAX_ENTRIES:
            result[name] = [*parts[: 2 * MAX_ENTRIES], *_left_out_parts(name, len(parts) - 2 * MAX_ENTRIES)]
    for key in ("_meta", "structuredContent"):
        if key in result and result[key] is None:
            del result[key]
    if not isinstance(result.get("_meta", {}), dict):
        del result["_meta"]
    structured = result.get("structuredContent")
    if "role" not in result:
        _repair_blocks(result)
    if result.get("content") is None and (structured is not None or "isError" in result or not result):
        result["content"] = []
    if structured is not None and not isinstance(structured, dict):
        result["structuredContent"] = {"result": structured}


def _repair_blocks(result: dict[str, Any]) -> None:
    """Remove unknown decoration from the texts, pictures and files of an output."""
    if isinstance(blocks := result.get("content"), str | dict | list):
        result["content"] = [_known_block(block) for block in (blocks if isinstance(blocks, list) else [blocks])]
    if isinstance(contents := result.get("contents"), list):
        result["contents"] = [_bare(each, _CONTENTS) if isinstance(each, dict) else each for each in contents]
    for message in messages if isinstance(messages := result.get("messages"), list) else ():
        if isinstance(message, dict):
            message["content"] = _known_block(message.get("content"))
    if "isError" in result and not isinstance(result["isError"], bool):
        result["isError"] = str(result["isError"]).lower() in ("true", "1")


def _left_out_parts(name: str, count: int) -> list[dict[str, object]]:
    text = f"[{count:,} more parts are left out]"
    match name:
        case "content":
            return [{"type": "text", "text": text}]
        case "contents":
            return [{"uri": "", "text": text}]
        case _:
            return []


def _known_block(block: object) -> object:
    """Return a block that the SDK accepts, or a line of text in place of an unknown one."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return _line_for(block)
    if _is_block(block):
        return block
    bare = _bare(block, _BLOCK_KEYS)
    if isinstance(bare.get("resource"), dict):
        bare["resource"] = _bare(bare["resource"], _CONTENTS)
    if "text" in bare:
        text = bare["text"]
        bare |= {"type": "text", "text": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)}
    if bare.get("type") == "resource_link":
        bare = {"name": bare.get("uri"), **bare}
    return bare if _is_block(bare) else _line_for(block)


def _is_block(block: object) -> bool:
    try:
        _BLOCKS.validate_python(block, by_name=False)
    except ValidationError:
        return False
    return isinstance(block, dict) and "type" in block  # the protocol requires it, but these models do not


def _bare(table: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return only these keys of the table, if they have a value."""
    return {key: value for key, value in table.items() if key in keys and value is not None}


def _line_for(block: object) -> dict[str, str]:
    kind = block.get("type") if isinstance(block, dict) else None
    text = f"[a part of the type `{one_line(str(kind))[:40]}` is left out: it is unknown to the protocol]"
    return {"type": "text", "text": text}


def _is_sound(entry: object, list_name: str, leave_out: Callable[[str], None]) -> bool:
    """Whether the SDK accepts a list entry after its schemas are repaired."""
    kind, method = _LISTS[list_name]
    if list_name == "tools" and isinstance(entry, dict):
        _repair_schemas(entry)
    if _is_too_large(entry):
        label = one_line(str(entry.get("name"))) if isinstance(entry, dict) else ""
        leave_out(f"`{label}` is left out: it has more than {_MAX_ENTRY_CHARS:,} characters")
        return False
    try:
        _take(kind, method, list_name, entry)
    except ValidationError as error:
        if isinstance(entry, dict) and _undecorate(entry):
            return _is_sound(entry, list_name, leave_out)
        name = entry.get("name") if isinstance(entry, dict) else None
        label = f"`{one_line(str(name))}`" if name else f"a {kind.__name__.lower()} without a name"
        leave_out(f"{label} is left out: {first_fault(error, list_name)}")
        return False
    return True


def _take(kind: type[BaseModel], method: str, list_name: str, entry: object) -> None:
    """Raise `ValidationError` if the SDK rejects the entry."""
    kind.model_validate(entry, by_name=False)
    validate_server_result(method, _VERSION, {list_name: [entry]})  # stricter than the validation before


def _undecorate(entry: dict[str, Any]) -> bool:
    """Remove optional keys from a list entry, and return whether there were any."""
    odd = [key for key in entry if key not in _ENTRY_KEYS]
    odd += [key for key in ("description", "mimeType") if not isinstance(entry.get(key, ""), str)]
    for key in odd:
        del entry[key]
    return bool(odd)


def _is_too_large(entry: object) -> bool:
    left, size = [entry], 0
    while left and size <= _MAX_ENTRY_CHARS:
        match left.pop():
            case str() as text:
                size += len(text)
            case dict() as table:
                left += [*table, *table.values()]
            case list() as values:
                left += values
            case _:
                size += 1
    return size > _MAX_ENTRY_CHARS


def _repair_schemas(tool: dict[str, Any]) -> None:
    """Repair the input schema: no schema means no arguments, and arguments are always an object. Output schemas are
    dropped."""
    schema = tool.get("inputSchema")
    if schema is None:
        tool["inputSchema"] = {"type": "object", "properties": {}}
    elif isinstance(schema, dict):
        kinds = schema.get("type", "object")
        is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
        kept = {key: value for key, value in schema.items() if value is not None or key not in ("required", "$schema")}
        tool["inputSchema"] = {**kept, "type": "object"} if is_object else kept
    tool.pop("outputSchema", None)


def first_fault(error: ValidationError, list_name: str = "") -> str:
    """Return position and description of the first error, without the library's advice. `list_name`: the list that
    contains the entry."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = fault["loc"][2:] if list_name and fault["loc"][:1] == (list_name,) else fault["loc"]
    return one_line(f"`{'.'.join(map(str, where))}`: {fault['msg']}")
