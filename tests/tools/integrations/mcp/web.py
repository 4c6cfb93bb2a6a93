"""A server over HTTP in plain Python that can misbehave, in the protocol of 2025, for as long as a test lasts."""

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.kit.web_server import QuietHandler, web_server

CHUNK = b"x" * 65536


@contextmanager
def misbehaving(way: str) -> Iterator[str]:
    """The address of a server that answers calls in this way."""
    released = threading.Event()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"
        sessions = 0
        calls = 0

        def do_POST(self) -> None:
            message = json.loads(self.body())
            with suppress(BrokenPipeError, ConnectionResetError):
                match message.get("method"):
                    case "initialize":
                        Handler.sessions += 1
                        info = {"name": "web", "version": "1"}
                        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
                        self.give(message, result, {"mcp-session-id": f"s{Handler.sessions}"})
                    case "tools/list":
                        self.give(message, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
                    case "tools/call":
                        Handler.calls += 1
                        self.call(message)
                    case "server/discover":
                        error = {"code": -32601, "message": "Method not found"}
                        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
                    case _:
                        self.reply(202, b"")

        def call(self, message: dict[str, Any]) -> None:
            match way:
                case "large json":
                    self.begin("application/json")
                    self.wfile.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"' % message["id"])
                    self.flood()
                case "large event":
                    self.begin("text/event-stream")
                    self.wfile.write(b"event: message\ndata: ")
                    self.flood()
                case "packed":
                    self.reply(200, gzip.compress(b"x" * 10_000_000), {"content-encoding": "gzip"})
                case "cut":
                    self.begin("application/json", {"content-length": "1000"})
                    self.wfile.write(b'{"jsonrpc"')
                case "page":
                    self.reply(503, b"<html>out of order</html>", {"content-type": "text/html"})
                case "nested":
                    self.reply(400, b'{"error":' * 50_000)
                case "no json":
                    self.reply(200, b"{")
                case "hang":
                    released.wait()
                case "started again" if Handler.calls == 1:
                    error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
                    self.reply(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
                case "forgetful" if Handler.calls == 1:
                    self.reply(404, b"")
                case _:
                    self.give(message, {"content": [{"type": "text", "text": self.headers["mcp-session-id"]}]})

        def give(self, message: dict[str, Any], result: dict[str, Any], headers: dict[str, str] | None = None) -> None:
            self.reply(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(), headers)

        def begin(self, kind: str, headers: dict[str, str] | None = None) -> None:
            self.close_connection = True
            self.send_response(200)
            for name, value in {"content-type": kind, "connection": "close", **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()

        def flood(self) -> None:
            """Writes until nobody reads any more."""
            while not released.is_set():
                self.wfile.write(CHUNK)

        def do_GET(self) -> None:
            self.reply(405, b"")

        def do_DELETE(self) -> None:
            if way == "stays":
                released.wait()
            with suppress(BrokenPipeError, ConnectionResetError):
                self.reply(200, b"")

    with web_server(Handler, released.set) as address:
        yield f"{address}/mcp"
