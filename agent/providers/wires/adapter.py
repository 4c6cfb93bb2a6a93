"""One frame for all wires: a provider made of a pure body, a pure decoder and a row of facts."""

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
"""Messages that are written down in a thread: it takes so long that somebody at the keys would notice."""

Body: TypeAlias = Callable[[Request, ModelFacts, Window, frozenset[str], WrittenRequest[Any]], Json]
"""The JSON of a request, without what the server has refused. What was written down before is not written anew."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """What tells one wire from the others."""

    path: str
    """Behind the server's address."""
    body: Body
    writer: Callable[..., Writer]
    decoder: Callable[[Origin], Decoder]
    sdk: Callable[[Origin], Wire]
    """The wire that is an official SDK, where nothing of it is loaded yet."""
    root: Callable[[Endpoint], str] = lambda endpoint: endpoint.base_url.rstrip("/")
    """The server's address as a URL, without a slash at its end."""
    headers: Callable[[Endpoint], Mapping[str, str]] = bearer
    """Those that carry the key, and those that the API wants."""
    reader: Callable[[], EventReader] = SseReader
    quirks: Mapping[str, str] = field(default_factory=dict)
    """See `Quirks`."""
    known_quirks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Those that are known of a host."""


class WireProvider:
    """A model behind a server that speaks as `adapter` says."""

    def __init__(
        self,
        adapter: Adapter,
        facts: ModelFacts,
        window: Window,
        endpoint: Endpoint,
        wire: Literal["sdk", "http"] = "http",
        secrets: SecretTokens | None = None,
    ) -> None:
        """`secrets`: hides what no request is to hold."""
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
        with self._writing:  # who was interrupted may still write
            return self._adapter.body(request, self.facts, self.window, quirks, self._written)

    async def prepare(self) -> None:
        await self._wire.prepare()

    async def close(self) -> None:
        await self._wire.close()


def _http_wire(adapter: Adapter, origin: Origin) -> Wire:
    accept = {"accept": "text/event-stream"} if adapter.reader is SseReader else {}
    headers = {**accept, **adapter.headers(origin.endpoint)}
    return HttpWire(origin, f"{origin.endpoint.base_url}{adapter.path}", headers, adapter.reader)
