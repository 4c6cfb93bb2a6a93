"""Repairs messages from servers before the SDK reads them. Otherwise, the SDK would reject a whole list because of one
invalid entry, and mistake some server errors for a broken connection."""

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

from ebbtide.tools.integrations.mcp.streams import IncomingStream
from ebbtide.tools.integrations.mcp.texts import one_line

_SDK_ERROR_PREFIX = "SSE stream "
"""Prefix of connection errors that the SDK presents as server errors."""
_PROGRESS_INTERVAL_S = 0.05
"""Minimum number of seconds between a call's forwarded progress notifications."""
_MAX_PROGRESS_TOKENS = 100
MAX_LIST_ENTRIES = 5_000
"""Maximum number of entries in a list. An output may have twice as many content blocks. Checking more would stall the
whole process."""
_MAX_ENTRY_CHARS = 1_000_000
"""Maximum total length of all strings in an entry, in characters."""
_MAX_REQUESTS, _REQUEST_WINDOW_S = 500, 10.0
"""Maximum number of requests from a server within a time window, and the length of the window in seconds. Each request
must be answered, so a server that sends more is disconnected."""
_TOO_MANY_REQUESTS = "it sends more requests than can be answered"
_LIST_TYPES: dict[str, tuple[type[BaseModel], str]] = {
    "tools": (types.Tool, "tools/list"),
    "resources": (types.Resource, "resources/list"),
    "resourceTemplates": (types.ResourceTemplate, "resources/templates/list"),
    "prompts": (types.Prompt, "prompts/list"),
}
"""The type of each list's entries, and the request that returns the list."""
_BLOCK_ADAPTER: TypeAdapter[types.ContentBlock] = TypeAdapter(types.ContentBlock)
_ENTRY_KEYS = frozenset({"name", "description", "inputSchema", "uri", "uriTemplate", "mimeType", "arguments"})
"""The keys of a list entry that this program uses. All others can be removed."""
_CONTENT_KEYS = frozenset({"uri", "mimeType", "text", "blob"})
_BLOCK_KEYS = frozenset({"type", "text", "data", "mimeType", "resource", "uri", "name", "description"})
"""The keys of a content block that this program uses. All others can be removed."""
_PROTOCOL_VERSION = "2025-11-25"
"""The protocol version that entries are validated against. The keys that this program uses are the same in other
versions."""


class RepairedStream(IncomingStream):
    """The incoming half of a connection, with its messages repaired."""

    def __init__(
        self,
        stream: ReadStream[Any],
        on_notification: Callable[[str], None],
        on_omission: Callable[[str], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """`on_notification`: gets the method of every notification. `on_omission`: gets the reason for each omitted
        list entry. `on_lost`: called when the stream ends."""
        self._stream = stream
        self._on_notification = on_notification
        self._on_omission = on_omission
        self._on_lost = on_lost
        self._progress: dict[str, float] = {}
        """Time of the last forwarded progress notification, by call."""
        self._request_window: tuple[float, int] = (0.0, 0)
        """Start of the current time window for requests, and number of requests in it."""

    @property
    def last_context(self) -> object:
        """The context that the SDK passes between tasks along with messages."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self._on_lost("its connection has ended")
                raise
            if not isinstance(item, SessionMessage):
                return item  # type: ignore[no-any-return]  # the stream's own items
            if isinstance(item.message, types.JSONRPCNotification):
                if self._is_too_soon(item.message):
                    continue
                self._on_notification(item.message.method)
            if isinstance(item.message, types.JSONRPCRequest) and self._exceeds_request_limit():
                self._on_lost(_TOO_MANY_REQUESTS)
                raise anyio.EndOfStream
            repair_message(item.message, self._on_omission)
            return item

    def _exceeds_request_limit(self) -> bool:
        now, (window_start, request_count) = anyio.current_time(), self._request_window
        self._request_window = (window_start, request_count + 1) if now - window_start < _REQUEST_WINDOW_S else (now, 1)
        return self._request_window[1] > _MAX_REQUESTS

    def _is_too_soon(self, notification: types.JSONRPCNotification) -> bool:
        """Whether a progress notification comes too soon after the last one. The SDK spends a millisecond on each, even
        if it is not displayed."""
        if notification.method != "notifications/progress" or notification.params is None:
            return False
        token, now = str(notification.params.get("progressToken")), anyio.current_time()
        is_too_soon = now - self._progress.get(token, 0.0) < _PROGRESS_INTERVAL_S
        if not is_too_soon:
            self._progress = {**(self._progress if len(self._progress) < _MAX_PROGRESS_TOKENS else {}), token: now}
        return is_too_soon

    async def aclose(self) -> None:
        await self._stream.aclose()


def repair_streams(
    streams: TransportStreams,
    on_notification: Callable[[str], None],
    on_omission: Callable[[str], None],
    on_lost: Callable[[str], None],
) -> TransportStreams:
    """Wrap the streams so that incoming messages are repaired."""
    incoming, outgoing = streams
    return RepairedStream(incoming, on_notification, on_omission, on_lost), outgoing


def repair_message(message: types.JSONRPCMessage, on_omission: Callable[[str], None]) -> None:
    """Repair one message."""
    match message:
        case types.JSONRPCError(error=error) if error.code == types.CONNECTION_CLOSED:
            # Servers may use this code for any error, but the SDK mistakes it for a closed connection.
            if not error.message.startswith(_SDK_ERROR_PREFIX):
                error.code = types.INTERNAL_ERROR
        case types.JSONRPCResponse(result=result) if "content" not in result:
            for name, (_, method) in _LIST_TYPES.items():
                if name in result and result[name] is None:
                    result[name] = []
                if isinstance(entries := result.get(name), list):
                    list_kind = method.partition("/")[0]
                    if len(entries) > MAX_LIST_ENTRIES:
                        on_omission(f"it lists {len(entries):,} {list_kind}, of which {MAX_LIST_ENTRIES:,} are used")
                    result[name] = [
                        entry for entry in entries[:MAX_LIST_ENTRIES] if _is_acceptable(entry, name, on_omission)
                    ]
    if isinstance(message, types.JSONRPCResponse):
        _repair_output(message.result)


def _repair_output(result: dict[str, Any]) -> None:
    """Repair a tool result without blocks, or with structured content that is not an object."""
    for name in ("content", "contents", "messages"):
        if isinstance(blocks := result.get(name), list) and len(blocks) > 2 * MAX_LIST_ENTRIES:
            result[name] = [
                *blocks[: 2 * MAX_LIST_ENTRIES],
                *_omission_blocks(name, len(blocks) - 2 * MAX_LIST_ENTRIES),
            ]
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
    """Remove unknown optional keys from the text, images and files in an output."""
    if isinstance(blocks := result.get("content"), str | dict | list):
        result["content"] = [_acceptable_block(block) for block in (blocks if isinstance(blocks, list) else [blocks])]
    if isinstance(contents := result.get("contents"), list):
        result["contents"] = [
            _with_only_keys(content, _CONTENT_KEYS) if isinstance(content, dict) else content for content in contents
        ]
    for message in messages if isinstance(messages := result.get("messages"), list) else ():
        if isinstance(message, dict):
            message["content"] = _acceptable_block(message.get("content"))
    if "isError" in result and not isinstance(result["isError"], bool):
        result["isError"] = str(result["isError"]).lower() in ("true", "1")


def _omission_blocks(name: str, count: int) -> list[dict[str, object]]:
    text = f"[{count:,} more parts are omitted]"
    match name:
        case "content":
            return [{"type": "text", "text": text}]
        case "contents":
            return [{"uri": "", "text": text}]
        case _:
            return []


def _acceptable_block(block: object) -> object:
    """Return a block that the SDK accepts. An unknown block is replaced with a line of text."""
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return _placeholder_block(block)
    if _is_block(block):
        return block
    reduced_block = _with_only_keys(block, _BLOCK_KEYS)
    if isinstance(reduced_block.get("resource"), dict):
        reduced_block["resource"] = _with_only_keys(reduced_block["resource"], _CONTENT_KEYS)
    if "text" in reduced_block:
        text = reduced_block["text"]
        reduced_block |= {
            "type": "text",
            "text": text if isinstance(text, str) else json.dumps(text, ensure_ascii=False),
        }
    if reduced_block.get("type") == "resource_link":
        reduced_block = {"name": reduced_block.get("uri"), **reduced_block}
    return reduced_block if _is_block(reduced_block) else _placeholder_block(block)


def _is_block(block: object) -> bool:
    try:
        _BLOCK_ADAPTER.validate_python(block, by_name=False)
    except ValidationError:
        return False
    return isinstance(block, dict) and "type" in block  # required by the protocol but not by these models


def _with_only_keys(table: dict[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Keep only these keys of the table, and only if they have a value."""
    return {key: value for key, value in table.items() if key in keys and value is not None}


def _placeholder_block(block: object) -> dict[str, str]:
    block_type = block.get("type") if isinstance(block, dict) else None
    text = f"[a part of the type `{one_line(str(block_type))[:40]}` is omitted: it is unknown to the protocol]"
    return {"type": "text", "text": text}


def _is_acceptable(entry: object, list_name: str, on_omission: Callable[[str], None]) -> bool:
    """Whether the SDK accepts a list entry once its schemas have been repaired."""
    entry_type, method = _LIST_TYPES[list_name]
    if list_name == "tools" and isinstance(entry, dict):
        _repair_schemas(entry)
    if _is_too_large(entry):
        label = one_line(str(entry.get("name"))) if isinstance(entry, dict) else ""
        on_omission(f"`{label}` is skipped: it has more than {_MAX_ENTRY_CHARS:,} characters")
        return False
    try:
        _validate_entry(entry_type, method, list_name, entry)
    except ValidationError as error:
        if isinstance(entry, dict) and _remove_optional_keys(entry):
            return _is_acceptable(entry, list_name, on_omission)
        name = entry.get("name") if isinstance(entry, dict) else None
        label = f"`{one_line(str(name))}`" if name else f"a {entry_type.__name__.lower()} without a name"
        on_omission(f"{label} is skipped: {first_error_text(error, list_name)}")
        return False
    return True


def _validate_entry(entry_type: type[BaseModel], method: str, list_name: str, entry: object) -> None:
    """Raise `ValidationError` if the SDK would reject the entry."""
    entry_type.model_validate(entry, by_name=False)
    validate_server_result(method, _PROTOCOL_VERSION, {list_name: [entry]})  # stricter than `model_validate`


def _remove_optional_keys(entry: dict[str, Any]) -> bool:
    """Remove optional keys from a list entry; return whether any were removed."""
    removable_keys = [key for key in entry if key not in _ENTRY_KEYS]
    removable_keys += [key for key in ("description", "mimeType") if not isinstance(entry.get(key, ""), str)]
    for key in removable_keys:
        del entry[key]
    return bool(removable_keys)


def _is_too_large(entry: object) -> bool:
    pending = [entry]
    char_count = 0
    while pending and char_count <= _MAX_ENTRY_CHARS:
        match pending.pop():
            case str() as text:
                char_count += len(text)
            case dict() as table:
                pending += [*table, *table.values()]
            case list() as values:
                pending += values
            case _:
                char_count += 1
    return char_count > _MAX_ENTRY_CHARS


def _repair_schemas(tool: dict[str, Any]) -> None:
    """Repair the input schema: a missing schema means no arguments, and arguments are always an object. Output schemas
    are removed."""
    schema = tool.get("inputSchema")
    if schema is None:
        tool["inputSchema"] = {"type": "object", "properties": {}}
    elif isinstance(schema, dict):
        schema_types = schema.get("type", "object")
        is_object = schema_types == "object" or (isinstance(schema_types, list) and "object" in schema_types)
        cleaned_schema = {
            key: value for key, value in schema.items() if value is not None or key not in ("required", "$schema")
        }
        tool["inputSchema"] = {**cleaned_schema, "type": "object"} if is_object else cleaned_schema
    tool.pop("outputSchema", None)


def first_error_text(error: ValidationError, list_name: str = "") -> str:
    """Return the position and description of the first error, without the library's advice. `list_name`: the list
    that contains the entry."""
    first_error = error.errors(include_url=False, include_context=False, include_input=False)[0]
    location = first_error["loc"][2:] if list_name and first_error["loc"][:1] == (list_name,) else first_error["loc"]
    return one_line(f"`{'.'.join(map(str, location))}`: {first_error['msg']}")
