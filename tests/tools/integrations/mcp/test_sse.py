"""The transport from before streamable HTTP, with the SDK's own server and with one that misbehaves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from ebbtide.tools.base import Result, ToolError, no_progress
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from tests.kit.web_server import QuietHandler, web_server
from tests.tools.integrations.mcp.conftest import Starts, listening

OLD = "2024-11-05"


@contextmanager
def events(way: str) -> Iterator[str]:
    """The address of a server that answers the second call, and misbehaves at the first one."""
    queue: SimpleQueue[bytes] = SimpleQueue()
    calls: list[object] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.begin(404 if way == "is not there" else 200, "text/event-stream")
            host = "http://127.0.0.1:1" if way == "points elsewhere" else ""
            self.wfile.write(f": hello\r\n\r\nevent: endpoint\r\ndata: {host}/said\r\n\r\n".encode())
            while data := queue.get() if way not in ("is not there", "ends at once") else b"":
                self.wfile.write(data)

        def do_POST(self) -> None:
            message = json.loads(self.body())
            if self.path != "/said":
                return self.begin(404 if way == "is not there" else 405, "text/html")
            is_first_call = message["method"] == "tools/call" and not calls
            if is_first_call:
                calls.append(message)
                if way == "refuses":
                    return self.begin(503, "text/html")
                if way == "ends":
                    queue.put(b"")
                if way == "is large":
                    queue.put(b"event: message\ndata: " + b"x" * 2_000_000)
                    queue.put(b"")
            self.begin(202, "text/plain")
            if "id" in message and not (is_first_call and way != "well"):
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": self.result(message["method"])})

        def result(self, method: str) -> dict[str, Any]:
            match method:
                case "initialize":
                    info = {"name": "old", "version": "1"}
                    return {"protocolVersion": OLD, "capabilities": {"tools": {}}, "serverInfo": info}
                case "tools/list":
                    return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
            return {"content": [{"type": "text", "text": "well"}]}

        def send(self, message: dict[str, Any]) -> None:
            text = json.dumps(message, indent=1).replace("\n", "\r\ndata: ")
            queue.put(f"event: message\r\ndata: {text}\r\n\r\n".encode())

        def begin(self, status: int, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.end_headers()

    with web_server(Handler, lambda: queue.put(b"")) as address:
        yield f"{address}/sse"


async def test_an_older_server_answers_calls(start: Starts) -> None:
    with listening("serving", "sse") as address:
        server = await start.ready(ServerSpec("old", url=address.replace("/mcp", "/sse"), is_sse=True))
        assert (server.state.phase, server.state.name) == ("ready", "everything")
        assert await server.call("echo", {"text": "hi"}, no_progress) == Result("hi")
        assert await server.call("steps", {"count": 2}, no_progress) == Result("2 steps")
        await server.close()


CALLS = [
    ("well", ""),
    ("refuses", "refused `echo`: the server answers with HTTP 503 Service Unavailable"),
    ("ends", "was lost during `echo` (its connection has ended); it may be partly done"),
    ("is large", "was lost during `echo` (its connection has ended); it may be partly done"),
]


async def test_an_address_that_takes_no_posts_is_asked_in_the_older_way(start: Starts) -> None:
    with events("well") as address:
        server = await start.ready(ServerSpec("old", url=address))
        assert (server.state.phase, server.state.protocol) == ("ready", OLD)
        assert await server.call("echo", {}, no_progress) == Result("well")
        await server.close()
    with events("is not there") as address:
        state = await start(ServerSpec("old", url=address)).wait_until_started()
        assert (state.phase, state.detail) == ("failed", "the server answers with HTTP 404 Not Found")


@pytest.mark.parametrize(("way", "message"), CALLS)
async def test_a_call_that_goes_wrong_is_told_in_a_line_and_the_next_one_is_answered(
    way: str, message: str, start: Starts
) -> None:
    with events(way) as address:
        server = await start.ready(ServerSpec("old", url=address, is_sse=True, max_result_bytes=1_000_000))
        assert (server.state.phase, server.state.protocol) == ("ready", OLD)
        if message:
            with pytest.raises(ToolError) as caught:
                await server.call("echo", {}, no_progress)
            assert str(caught.value) == f"the server `old` {message}"
        assert await server.call("echo", {}, no_progress) == Result("well")
        await server.close()


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("is not there", "the server answers with HTTP 404 Not Found"),
        ("ends at once", "its connection has ended"),
        ("points elsewhere", "it wants messages sent to another host: http://127.0.0.1:1/said"),
    ],
)
async def test_a_server_that_cannot_be_spoken_to_is_named_in_a_line(way: str, message: str, start: Starts) -> None:
    with events(way) as address:
        state = await start(ServerSpec("old", url=address, is_sse=True)).wait_until_started()
        assert (state.phase, state.detail) == ("failed", message)


async def test_an_address_where_nobody_answers_is_named(start: Starts) -> None:
    state = await start(ServerSpec("old", url="http://127.0.0.1:1/sse", is_sse=True)).wait_until_started()
    assert (state.phase, state.detail) == ("failed", "the server cannot be reached: All connection attempts failed")
