"""Speaks the protocol of a running language server: requests, notifications, and minimal responses to the server's
requests."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.integrations.lsp.framing import frame_message
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.process.child import Child
from ebbtide.tools.process.lines import TruncatedLine

MAX_UNSOLICITED_BYTES = 64 * 1024**2
"""Maximum number of bytes that a server may send between two messages from the client."""
_METHOD_NOT_FOUND = -32601
COLUMN_ENCODINGS = ("utf-8", "utf-16", "utf-32")
"""Encodings in which a server may count columns."""

_CAPABILITIES: Mapping[str, object] = {
    "general": {"positionEncodings": ["utf-32", "utf-16"]},
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
        "definition": {},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
    },
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "symbol": {},
        "diagnostics": {"refreshSupport": True},
    },
    "window": {"workDoneProgress": True},
    "experimental": {"serverStatusNotification": True},
}


class LanguageServerError(Exception):
    """Raised if the server has ended, sent invalid data or responded with an error. The message says which."""


class LanguageClient:
    """The connection to one server. `request` works only while `listen` is running."""

    def __init__(
        self,
        child: Child,
        root: Path,
        settings: Mapping[str, object],
        on_message: Callable[[str, object], None],
    ) -> None:
        """`settings`: values that the server may request, as nested tables. `on_message`: called with the method and
        parameters of each notification and refresh request."""
        self._child = child
        self._root = root
        self._settings = settings
        self._on_message = on_message
        self._responses: dict[int, asyncio.Future[object]] = {}
        self._last_id = 0
        self._unsolicited_bytes = 0

    async def listen(self) -> str:
        """Process messages until the server ends; return why it ended."""
        try:
            while (message := await self._child.read()) is not None:
                assert not isinstance(message, TruncatedLine), "messages of that size end the conversation"
                self._unsolicited_bytes += len(message)
                if self._unsolicited_bytes > MAX_UNSOLICITED_BYTES:
                    return f"it sent more than {MAX_UNSOLICITED_BYTES // 1024**2} MB without being asked"
                try:
                    self._dispatch(json.loads(message))
                except (ValueError, RecursionError):
                    return "it sent a message that is not JSON"
            return await self._child.end_reason()
        except BrokenPipeError:
            return await self._child.end_reason()
        finally:
            for response in self._responses.values():
                if not response.done():
                    response.set_exception(LanguageServerError("it ended before it answered"))

    async def initialise(self, options: Mapping[str, object]) -> Mapping[str, object]:
        """Send `initialize` and return the server's capabilities. Raises `LanguageServerError`."""
        request = {
            # A sandboxed server cannot see this process and would exit. The server is ended together with this process
            # anyway.
            "processId": None,
            "clientInfo": {"name": "ebbtide"},
            "rootUri": self._root.as_uri(),
            "rootPath": str(self._root),
            "workspaceFolders": workspace_folders(self._root),
            "capabilities": _CAPABILITIES,
            "initializationOptions": dict(options),
        }
        result = await self.request("initialize", request)
        self.notify("initialized", {})
        self.notify("workspace/didChangeConfiguration", {"settings": dict(self._settings)})
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        return capabilities if isinstance(capabilities, dict) else {}

    async def request(self, method: str, parameters: object) -> object:
        """Send a request and return its result. Never times out, so the caller must set a timeout. Raises
        `LanguageServerError`."""
        self._last_id += 1
        request_id = self._last_id
        response = self._responses[request_id] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": request_id, "method": method, "params": parameters})
            await self._child.wait_for_room()
            return await response
        finally:
            del self._responses[request_id]
            if response.cancelled():
                with suppress(LanguageServerError):
                    self.notify("$/cancelRequest", {"id": request_id})

    def notify(self, method: str, parameters: object) -> None:
        """Send a notification. Raises `LanguageServerError`."""
        self._send({"method": method, "params": parameters})

    def _send(self, message: Mapping[str, object]) -> None:
        self._unsolicited_bytes = 0
        self._write(message)

    def _write(self, message: Mapping[str, object]) -> None:
        try:
            self._child.write(frame_message({"jsonrpc": "2.0", **message}))
        except BrokenPipeError as error:
            raise LanguageServerError("it no longer accepts messages") from error

    def _dispatch(self, message: object) -> None:
        if not isinstance(message, dict):
            return
        match message:
            case {"method": str(method), "id": str() | int() as request_id}:
                self._respond(request_id, method, message.get("params"))
            case {"method": str(method)}:
                self._on_message(method, message.get("params"))
            case {"id": int(request_id)} if request_id in self._responses and not self._responses[request_id].done():
                if (error := message.get("error")) is not None:
                    reason = error.get("message") if isinstance(error, dict) else None
                    text = ellipsize(printable_name(str(reason or error)), 300)
                    self._responses[request_id].set_exception(LanguageServerError(text))
                else:
                    self._responses[request_id].set_result(message.get("result"))
            case _:
                pass  # a response that is no longer awaited

    def _respond(self, request_id: str | int, method: str, parameters: object) -> None:
        """Respond to a request from the server. No response changes a file."""
        values = parameters if isinstance(parameters, dict) else {}
        result: object = None
        match method:
            case "workspace/configuration":
                items = values.get("items")
                result = [self._setting(item) for item in (items if isinstance(items, list) else [])]
            case "workspace/workspaceFolders":
                result = workspace_folders(self._root)
            case "workspace/applyEdit":
                result = {"applied": False, "failureReason": "this client does not change files"}
            case "window/showDocument":
                result = {"success": False}
            case "workspace/diagnostic/refresh":
                self._on_message(method, parameters)
            case (
                "client/registerCapability"
                | "client/unregisterCapability"
                | "window/workDoneProgress/create"
                | "window/showMessageRequest"
            ):
                pass
            case _ if method.startswith("workspace/") and method.endswith("/refresh"):
                pass
            case _:
                error = {
                    "code": _METHOD_NOT_FOUND,
                    "message": f"this client does not support `{ellipsize(method, 100)}`",
                }
                self._write({"id": request_id, "error": error})
                return
        self._write({"id": request_id, "result": result})

    def _setting(self, item: object) -> object:
        """Return the settings in a section such as `python.analysis`. None if there are none."""
        section = item.get("section") if isinstance(item, dict) else None
        value: object = self._settings
        for name in section.split(".") if isinstance(section, str) and section else ():
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def workspace_folders(root: Path) -> Sequence[Mapping[str, str]]:
    return [{"uri": root.as_uri(), "name": root.name or "/"}]
