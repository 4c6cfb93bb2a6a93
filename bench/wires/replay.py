"""A server on loopback that answers every request with the same recorded bytes, and a client that reads them."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.wires.rows import WIRE_PROVIDERS, RecordedAnswer
from ebbtide.agent.config.load import load_config
from ebbtide.agent.errors import AgentError
from ebbtide.agent.messages import Text, ToolOutput, User
from ebbtide.agent.providers.base import Provider, Reply, Request
from ebbtide.agent.providers.factory import build_provider

USER_MESSAGE = User((Text("What is the weather in Paris?"),))


@dataclass(slots=True)
class ReplayServer:
    """Answers each request to a model with the current row."""

    row: RecordedAnswer | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests to a model since the row was set."""
    url: str = ""

    def set_row(self, row: RecordedAnswer) -> None:
        self.row, self.bodies = row, []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            sizes = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            body = await reader.readexactly(int(sizes[0])) if sizes else b""
            if head.startswith("POST ") and not head.split(" ")[1].endswith("/api/show") and self.row is not None:
                self.bodies.append(json.loads(body))
                kind = self.row.headers.get("content-type", "application/json")
                writer.write(f"HTTP/1.1 {self.row.status} Recorded\r\ncontent-type: {kind}\r\n".encode())
                writer.write(f"content-length: {len(self.row.body)}\r\nconnection: close\r\n\r\n".encode())
                writer.write(self.row.body)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has closed the connection
        finally:
            writer.close()


@asynccontextmanager
async def replay_server() -> AsyncIterator[ReplayServer]:
    server = ReplayServer()
    listener = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield server


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """What the program read from a recorded answer."""

    reply: Reply | None
    error: AgentError | None
    requests: int
    """Number of requests that were sent for this answer."""
    next_body: dict[str, Any] = field(default_factory=dict)
    """The JSON of the next request, which returns the reply to the provider; empty after an error."""


async def read_row(server: ReplayServer, row: RecordedAnswer) -> AnswerReading:
    """Send a request to the replay server, and return what the program reads from the recorded answer."""
    server.set_row(row)
    provider = await _build_provider(server, row)
    try:
        request = Request("Be brief.", (USER_MESSAGE,), (), 1000, "session")
        try:
            reply = await _request_reply(provider, request)
        except AgentError as error:
            return AnswerReading(None, error, len(server.bodies))
        request_count = len(server.bodies)
        outputs = tuple(ToolOutput(call.id, "sunny") for call in reply.message.calls)
        next_messages = (USER_MESSAGE, reply.message, User(outputs or (Text("And tomorrow?"),)))
        with suppress(AgentError):  # only the request matters here, not its reply
            await _request_reply(provider, Request("Be brief.", next_messages, (), 1000, "session"))
        return AnswerReading(reply, None, request_count, server.bodies[request_count])
    finally:
        await provider.close()


async def _request_reply(provider: Provider, request: Request) -> Reply:
    chunks = [chunk async for chunk in provider.stream(request)]
    assert isinstance(chunks[-1], Reply)
    return chunks[-1]


async def _build_provider(server: ReplayServer, row: RecordedAnswer) -> Provider:
    name = WIRE_PROVIDERS[row.wire]
    base = server.url if row.wire in ("anthropic", "ollama") else f"{server.url}/v1"
    with tempfile.TemporaryDirectory() as home:
        config = load_config(Path(home), {"EBB_HOME": home}, {}, (f"providers.{name}.base_url={base}",))
    return await build_provider(config, f"{name}/{row.model}", {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"})
