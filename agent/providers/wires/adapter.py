"""A provider built from an adapter: a pure body function, a pure decoder and a few facts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from threading import Lock
from typing import Any, Literal, TypeAlias

from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import Chunk, Endpoint, ModelFacts, Request, without_secrets
from ebbtide.agent.providers.wires.decoder import Decoder, converse
from ebbtide.agent.providers.wires.encoding import Writer, WrittenRequest
from ebbtide.agent.providers.wires.http import EventReader, HttpWire, Json, SseReader, Wire, bearer
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.quirks import Quirks
from ebbtide.tools.lazy import dataclass

LARGE_REQUEST_MESSAGES = 500
"""Messages above which a request is encoded in a thread: it would block the user interface noticeably."""

Body: TypeAlias = Callable[[Request, ModelFacts, Window, frozenset[str], WrittenRequest[Any]], Json]
"""Builds the JSON of a request without the fields that the server has refused. Messages already encoded are reused."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """What distinguishes one wire from the others."""

    path: str
    """Appended to the server's address."""
    body: Body
    writer: Callable[..., Writer]
    decoder: Callable[[Origin], Decoder]
    sdk: Callable[[Origin], Wire]
    """Creates the wire that uses the official SDK, without importing it yet."""
    root: Callable[[Endpoint], str] = lambda endpoint: endpoint.base_url.rstrip("/")
    """The server's address as a URL, without a trailing slash."""
    headers: Callable[[Endpoint], Mapping[str, str]] = bearer
    """The headers with the key, and those that the API requires."""
    reader: Callable[[], EventReader] = SseReader
    quirks: Mapping[str, str] = field(default_factory=dict)
    """See `Quirks`."""
    known_quirks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The known quirks of each host."""


class WireProvider:
    """A model behind a server whose API the adapter describes."""

    def __init__(
        self,
        adapter: Adapter,
        facts: ModelFacts,
        window: Window,
        endpoint: Endpoint,
        wire: Literal["sdk", "http"] = "http",
        secrets: SecretTokens | None = None,
    ) -> None:
        """`secrets`: hides secrets in requests."""
        self.facts = facts
        self.window = window
        self._adapter = adapter
        self._secrets = secrets or SecretTokens()
        self._origin = Origin(facts.id, replace(endpoint, base_url=adapter.root(endpoint)))
        self._wire = adapter.sdk(self._origin) if wire == "sdk" else _http_wire(adapter, self._origin)
        self._written = WrittenRequest(adapter.writer)
        self._writing = Lock()
        self._quirks = Quirks(adapter.quirks, adapter.known_quirks.get(self._origin.host, frozenset()))

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        request = without_secrets(request, self._secrets)

        async def ask(quirks: frozenset[str]) -> AsyncGenerator[Chunk, None]:
            if self._written.left_of(request.messages) > LARGE_REQUEST_MESSAGES:
                body = await asyncio.to_thread(self._body, request, quirks)
            else:
                body = self._body(request, quirks)
            async with aclosing(converse(self._wire, body, self._adapter.decoder(self._origin), self._origin)) as said:
                async for chunk in said:
                    yield chunk

        return self._quirks.stream(ask)

    def _body(self, request: Request, quirks: frozenset[str]) -> Json:
        with self._writing:  # an interrupted request may still be encoding
            return self._adapter.body(request, self.facts, self.window, quirks, self._written)

    async def prepare(self) -> None:
        await self._wire.prepare()

    async def close(self) -> None:
        await self._wire.close()


def _http_wire(adapter: Adapter, origin: Origin) -> Wire:
    accept = {"accept": "text/event-stream"} if adapter.reader is SseReader else {}
    headers = {**accept, **adapter.headers(origin.endpoint)}
    return HttpWire(origin, f"{origin.endpoint.base_url}{adapter.path}", headers, adapter.reader)
