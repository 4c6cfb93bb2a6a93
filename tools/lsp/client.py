"""The protocol of a running language server: requests, notifications, and minimal answers to the server's requests."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ebbtide.tools.lsp.framing import frame_message
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.process.child import Child
from ebbtide.tools.process.lines import TooLong

MAX_UNREQUESTED_BYTES = 64 * 1024**2
"""Maximum number of bytes that a server may send between two messages to it."""
_NOT_KNOWN = -32601
ENCODINGS = ("utf-8", "utf-16", "utf-32")
"""Column encodings that a server may choose."""

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
    """The server has ended, sent something invalid or answered with an error, as its message says."""


class LanguageClient:
    """The connection to one server. `listen` must be running for `ask` to get answers."""

    def __init__(
        self,
        child: Child,
        root: Path,
        settings: Mapping[str, object],
        heard: Callable[[str, object], None],
    ) -> None:
        """`settings`: values that the server may request, as nested tables. `heard`: called with method and parameters
        of each notification, and of refresh requests."""
        self._child = child
        self._root = root
        self._settings = settings
        self._heard = heard
        self._answers: dict[int, asyncio.Future[object]] = {}
        self._number = 0
        self._unasked = 0

    async def listen(self) -> str:
        """Process messages until the server ends, and return why it did."""
        try:
            while (message := await self._child.read()) is not None:
                assert not isinstance(message, TooLong), "messages of that size end the conversation"
                self._unasked += len(message)
                if self._unasked > MAX_UNREQUESTED_BYTES:
                    return f"it said more than {MAX_UNREQUESTED_BYTES // 1024**2} MB without being asked"
                try:
                    self._take(json.loads(message))
                except (ValueError, RecursionError):
                    return "it sent a message that is not JSON"
            return await self._child.ending()
        except BrokenPipeError:
            return await self._child.ending()
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(LanguageServerError("it ended before it answered"))

    async def initialise(self, options: Mapping[str, object]) -> Mapping[str, object]:
        """Send `initialize` and return the server's capabilities. Raises `LanguageServerError`."""
        asked = {
            # In a sandbox, the server could not see our process and would exit. It is ended with us anyway.
            "processId": None,
            "clientInfo": {"name": "ebbtide"},
            "rootUri": self._root.as_uri(),
            "rootPath": str(self._root),
            "workspaceFolders": folders_of(self._root),
            "capabilities": _CAPABILITIES,
            "initializationOptions": dict(options),
        }
        answer = await self.ask("initialize", asked)
        self.notify("initialized", {})
        self.notify("workspace/didChangeConfiguration", {"settings": dict(self._settings)})
        found = answer.get("capabilities") if isinstance(answer, dict) else None
        return found if isinstance(found, dict) else {}

    async def ask(self, method: str, parameters: object) -> object:
        """Send a request and return its result. There is no time limit: the caller must set one. Raises
        `LanguageServerError`."""
        self._number += 1
        number = self._number
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": parameters})
            await self._child.room()
            return await answer
        finally:
            del self._answers[number]
            if answer.cancelled():
                with suppress(LanguageServerError):
                    self.notify("$/cancelRequest", {"id": number})

    def notify(self, method: str, parameters: object) -> None:
        """Send a notification. Raises `LanguageServerError`."""
        self._send({"method": method, "params": parameters})

    def _send(self, message: Mapping[str, object]) -> None:
        self._unasked = 0
        self._write(message)

    def _write(self, message: Mapping[str, object]) -> None:
        try:
            self._child.write(frame_message({"jsonrpc": "2.0", **message}))
        except BrokenPipeError as error:
            raise LanguageServerError("it takes nothing any more") from error

    def _take(self, message: object) -> None:
        if not isinstance(message, dict):
            return
        match message:
            case {"method": str(method), "id": str() | int() as id}:
                self._answer(id, method, message.get("params"))
            case {"method": str(method)}:
                self._heard(method, message.get("params"))
            case {"id": int(id)} if id in self._answers and not self._answers[id].done():
                if (error := message.get("error")) is not None:
                    said = error.get("message") if isinstance(error, dict) else None
                    text = ellipsize(printable(str(said or error)), 300)
                    self._answers[id].set_exception(LanguageServerError(text))
                else:
                    self._answers[id].set_result(message.get("result"))
            case _:
                pass  # an answer that is no longer awaited

    def _answer(self, id: str | int, method: str, parameters: object) -> None:
        """Answer a request of the server. None of the answers changes a file."""
        asked = parameters if isinstance(parameters, dict) else {}
        result: object = None
        match method:
            case "workspace/configuration":
                items = asked.get("items")
                result = [self._setting(item) for item in (items if isinstance(items, list) else [])]
            case "workspace/workspaceFolders":
                result = folders_of(self._root)
            case "workspace/applyEdit":
                result = {"applied": False, "failureReason": "this client changes no files"}
            case "window/showDocument":
                result = {"success": False}
            case "workspace/diagnostic/refresh":
                self._heard(method, parameters)
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
                error = {"code": _NOT_KNOWN, "message": f"this client does not support `{ellipsize(method, 100)}`"}
                self._write({"id": id, "error": error})
                return
        self._write({"id": id, "result": result})

    def _setting(self, item: object) -> object:
        """Return the setting for a section such as `python.analysis`, or None if it is not set."""
        section = item.get("section") if isinstance(item, dict) else None
        found: object = self._settings
        for name in section.split(".") if isinstance(section, str) and section else ():
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def folders_of(root: Path) -> Sequence[Mapping[str, str]]:
    return [{"uri": root.as_uri(), "name": root.name or "/"}]
