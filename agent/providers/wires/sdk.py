"""Sends requests through the official SDKs. The SDK only opens the stream. The stream's lines are parsed here, because
the SDKs do not report a broken stream. The SDK is imported in a thread at the first request, because the import takes
up to 1.7 s."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl

from ebbtide.agent.providers import wires
from ebbtide.agent.providers.wires.http import (
    EventReader,
    JsonObject,
    SseReader,
    open_httpx_client,
    read_events,
    translate_errors,
)
from ebbtide.agent.providers.wires.origin import Origin

if TYPE_CHECKING:
    import httpx2
    import openai


class SdkClient(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=SdkClient)


class SdkWire(Generic[C]):
    """A wire that uses the `anthropic` or `openai` SDK, which have the same structure."""

    def __init__(
        self,
        package: str,
        origin: Origin,
        create_client: Callable[[Origin], C],
        get_resource: Callable[[C], Any],
        *,
        create_reader: Callable[[], EventReader] = SseReader,
        modules: tuple[str, ...] = (),
    ) -> None:
        """`get_resource`: returns the part of the client that makes requests. `modules`: other modules that the client
        imports."""
        self._package = package
        self._create_reader = create_reader
        self._modules = modules
        self._origin = origin
        self._create_client = create_client
        self._get_resource = get_resource
        self._client: C | None = None

    async def prepare(self) -> None:
        for name in (self._package, *self._modules):
            await asyncio.to_thread(import_module, name)

    async def events(self, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        if self._client is None:
            await self.prepare()
        with translate_sdk_errors(self._package, self._origin):
            if self._client is None:
                self._client = self._create_client(self._origin)
            resource = self._get_resource(self._client)
            async with resource.with_streaming_response.create(**body) as response:
                events = read_events(response.headers, response.iter_bytes(), self._create_reader(), self._origin)
                async with aclosing(events):
                    async for event in events:
                        yield event

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


@contextmanager
def translate_sdk_errors(package: str, origin: Origin) -> Iterator[None]:
    """Convert an SDK's exceptions into provider errors. Both SDKs use the same names for exceptions."""
    sdk = import_module(package)
    sdk_error = sdk.AnthropicError if package == "anthropic" else sdk.OpenAIError
    with translate_errors(origin):  # once the stream is open, the SDK passes on httpx2's own exceptions
        try:
            yield
        except sdk_error as error:
            raise wires.network_errors.translate_sdk_error(error, sdk, origin) from error


def create_openai_client(
    origin: Origin, get_token: Callable[[], Awaitable[str]] | None = None, headers: Mapping[str, str] | None = None
) -> "openai.AsyncOpenAI":
    """Return the OpenAI SDK's client, for any compatible server. `get_token` returns a token in place of the key;
    `headers` are added to every request."""
    import openai  # noqa: PLC0415 - deferred: 0.7 s that other providers do not need

    http_client = open_httpx_client(origin)
    if not origin.endpoint.key and get_token is None:
        http_client.event_hooks = {**http_client.event_hooks, "request": [remove_key_header]}
    base_url, _, query = origin.endpoint.base_url.partition("?")
    return openai.AsyncOpenAI(
        # Without a placeholder, the SDK would fail, or use a key meant for another server.
        api_key=get_token or origin.endpoint.key or "none",
        default_headers=headers,
        base_url=base_url,
        default_query=dict(parse_qsl(query)),
        max_retries=0,
        timeout=http_client.timeout,
        http_client=http_client,
    )


async def remove_key_header(request: "httpx2.Request") -> None:
    del request.headers["authorization"]
