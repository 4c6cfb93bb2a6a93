"""Builds a provider from an adapter: a pure function that builds the request's body, a pure decoder and a few facts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import field, replace
from threading import Lock
from typing import Any, Literal, TypeAlias

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.prompt.secret_tokens import SecretTokens
from ebbtide.agent.providers.base import Chunk, Endpoint, KeySource, ModelFacts, Request, without_secrets
from ebbtide.agent.providers.wires.decoder import Decoder, stream_chunks
from ebbtide.agent.providers.wires.encoding import MessageEncoder, RequestEncodingCache
from ebbtide.agent.providers.wires.http import EventReader, HttpWire, JsonObject, SseReader, Wire, bearer_headers
from ebbtide.agent.providers.wires.origin import Origin
from ebbtide.agent.providers.wires.quirks import Quirks
from ebbtide.tools.lazy import dataclass

LARGE_REQUEST_MESSAGES = 500
"""Number of new messages above which a request is encoded in a thread. Otherwise, encoding would noticeably block the
user interface."""

WireName: TypeAlias = Literal["sdk", "http"]
BodyBuilder: TypeAlias = Callable[[Request, ModelFacts, Window, frozenset[str], RequestEncodingCache[Any]], JsonObject]
"""Builds the JSON of a request, without fields that the server has rejected. Reuses messages that are already encoded.
"""


@dataclass(frozen=True, slots=True)
class Adapter:
    """The differences between one API and the others."""

    path: str
    """Path appended to the server's address."""
    build_body: BodyBuilder
    create_encoder: Callable[..., MessageEncoder]
    create_decoder: Callable[[Origin], Decoder]
    create_sdk_wire: Callable[[Origin], Wire]
    """Creates the wire that uses the official SDK. The SDK is imported later."""
    get_server_url: Callable[[Endpoint], str] = lambda endpoint: endpoint.base_url.rstrip("/")
    """Returns the server's address as a URL, without a trailing slash."""
    build_headers: Callable[[Endpoint], Mapping[str, str]] = bearer_headers
    """Returns the headers with the key, and those that the API requires."""
    build_request_headers: Callable[[JsonObject], Mapping[str, str]] | None = None
    """Returns further headers, which depend on the request's body."""
    create_reader: Callable[[], EventReader] = SseReader
    quirk_by_clue: Mapping[str, str] = field(default_factory=dict)
    """Names of quirks, by the part of an error message that reveals them; see `Quirks`."""
    demanded_quirk_by_clue: Mapping[str, str] = field(default_factory=dict)
    """Like `quirk_by_clue`, for errors that demand a field instead of rejecting one."""
    known_quirks_by_host: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Known quirks of servers, by host."""


@dataclass(slots=True)
class _Connection:
    """A connection to the server with one key."""

    origin: Origin
    wire: Wire
    running_request_count: int = 0


class WireProvider:
    """A provider whose server has the API that the adapter describes."""

    def __init__(
        self,
        adapter: Adapter,
        facts: ModelFacts,
        window: Window,
        endpoint: Endpoint,
        wire: WireName = "http",
        secrets: SecretTokens | None = None,
        key_source: KeySource | None = None,
        create_search_provider: "Callable[[], WireProvider | None]" = lambda: None,
    ) -> None:
        """`secrets`: hides secrets in requests. `key_source`: supplies the keys of later requests; None if the
        endpoint's key never changes. `create_search_provider`: creates the provider for web searches at the first one;
        None if they are sent as other requests."""
        self.facts = facts
        self.window = window
        self._adapter = adapter
        self._secrets = secrets or SecretTokens()
        self._key_source, self._wire_name = key_source, wire
        self._connection = self._connect(replace(endpoint, base_url=adapter.get_server_url(endpoint)))
        self._encoding_cache = RequestEncodingCache(adapter.create_encoder)
        self._encoding_lock = Lock()
        self._create_search_provider = create_search_provider
        self._search_provider: WireProvider | None = None
        known_quirks = adapter.known_quirks_by_host.get(self._connection.origin.host, frozenset())
        self._quirks = Quirks(adapter.quirk_by_clue, known_quirks, adapter.demanded_quirk_by_clue)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        if request.max_web_searches:
            self._search_provider = self._search_provider or self._create_search_provider()
            if self._search_provider is not None:
                return self._search_provider.stream(request)
        request = without_secrets(request, self._secrets)

        async def ask(quirks: frozenset[str]) -> AsyncGenerator[Chunk, None]:
            if self._encoding_cache.unencoded_count(request.messages) > LARGE_REQUEST_MESSAGES:
                body = await asyncio.to_thread(self._build_body, request, quirks)
            else:
                body = self._build_body(request, quirks)
            async with aclosing(self._send(body)) as chunks:
                async for chunk in chunks:
                    yield chunk

        # If a server rejects a web search as a "tool type", that says nothing about the tools of other requests.
        return self._quirks.stream(ask, may_adapt=not request.max_web_searches)

    async def _send(self, body: JsonObject) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of the reply. If the server rejects the key and there is a newer one, the request is sent
        once more with the newer key."""
        connection, has_started = self._connection, False
        if self._key_source is not None:
            connection = await self._connection_with(await self._key_source.get_key())
        try:
            async with aclosing(self._reply(connection, body)) as chunks:
                async for chunk in chunks:
                    has_started = True
                    yield chunk
            return
        except AuthFailed as error:
            rejected_key = connection.origin.endpoint.key
            if self._key_source is None or rejected_key is None or has_started:
                raise
            if error.status not in self._key_source.renewal_statuses:
                raise
            key = await self._key_source.renew_key(rejected_key)
            if key == rejected_key:
                raise
        async with aclosing(self._reply(await self._connection_with(key), body)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _reply(self, connection: _Connection, body: JsonObject) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of the reply. A connection that uses an earlier key is closed after its last request."""
        connection.running_request_count += 1
        try:
            decoder = self._adapter.create_decoder(connection.origin)
            async with aclosing(stream_chunks(connection.wire, body, decoder, connection.origin)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            connection.running_request_count -= 1
            if connection is not self._connection and not connection.running_request_count:
                await connection.wire.close()

    async def _connection_with(self, key: str) -> _Connection:
        """Return the connection for later requests, which uses this key."""
        earlier = self._connection
        if key == earlier.origin.endpoint.key:
            return earlier
        connection = self._connection = self._connect(replace(earlier.origin.endpoint, key=key))
        if not earlier.running_request_count:
            await earlier.wire.close()
        return connection

    def _connect(self, endpoint: Endpoint) -> _Connection:
        if self._key_source is not None and endpoint.key is not None:  # a key from the environment is already hidden
            self._secrets.learn_environment({f"{self.facts.provider.upper()}_API_KEY": endpoint.key})
        origin = Origin(self.facts.id, endpoint)
        wire = (
            self._adapter.create_sdk_wire(origin)
            if self._wire_name == "sdk"
            else _create_http_wire(self._adapter, origin)
        )
        return _Connection(origin, wire)

    def _build_body(self, request: Request, quirks: frozenset[str]) -> JsonObject:
        with self._encoding_lock:  # an interrupted request may still be encoding its messages
            return self._adapter.build_body(request, self.facts, self.window, quirks, self._encoding_cache)

    async def prepare(self) -> None:
        await self._connection.wire.prepare()

    async def close(self) -> None:
        await self._connection.wire.close()
        if self._search_provider is not None:
            await self._search_provider.close()


def _create_http_wire(adapter: Adapter, origin: Origin) -> Wire:
    accept_header = {"accept": "text/event-stream"} if adapter.create_reader is SseReader else {}
    headers = {**accept_header, **adapter.build_headers(origin.endpoint)}
    url = join_url(origin.endpoint.base_url, adapter.path)
    return HttpWire(origin, url, headers, adapter.create_reader, adapter.build_request_headers)


def join_url(base_url: str, path: str) -> str:
    """Append a path to an address. If the address has a query, as in Azure's older API, the path goes before it."""
    root, question, query = base_url.partition("?")
    return f"{root.rstrip('/')}{path}{question}{query}"
