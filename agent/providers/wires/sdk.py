"""The official SDKs as wires. They open the stream; its lines are parsed here, since the SDKs do not report a broken
stream. An SDK is imported in a thread at the first request: that takes up to 1.7 s."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ebbtide.agent.providers.wires.http import Json, SseReader, open_client, read_events, translate_errors
from ebbtide.agent.providers.wires.origin import Origin

if TYPE_CHECKING:
    import httpx2
    import openai


class SdkClient(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=SdkClient)


class SdkWire(Generic[C]):
    """A wire over the `anthropic` or `openai` SDK, which have the same structure."""

    def __init__(
        self,
        package: str,
        origin: Origin,
        make_client: Callable[[Origin], C],
        resource: Callable[[C], Any],
    ) -> None:
        """`resource`: returns the part of the client that makes requests."""
        self._package = package
        self._origin = origin
        self._make_client = make_client
        self._resource = resource
        self._client: C | None = None

    async def prepare(self) -> None:
        await asyncio.to_thread(import_module, self._package)

    async def events(self, body: Json) -> AsyncGenerator[Json, None]:
        if self._client is None:
            await self.prepare()
        with translate_sdk_errors(self._package, self._origin):
            if self._client is None:
                self._client = self._make_client(self._origin)
            resource = self._resource(self._client)
            async with resource.with_streaming_response.create(**body) as response:
                events = read_events(response.headers, response.iter_bytes(), SseReader(), self._origin)
                async with aclosing(events):
                    async for event in events:
                        yield event

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


@contextmanager
def translate_sdk_errors(package: str, origin: Origin) -> Iterator[None]:
    """Convert an SDK's exceptions into provider errors. Both SDKs name their exceptions alike."""
    sdk = import_module(package)
    of_its_own = sdk.AnthropicError if package == "anthropic" else sdk.OpenAIError
    with translate_errors(origin):  # httpx2's own exceptions pass through once the stream is open
        try:
            yield
        except of_its_own as error:
            from ebbtide.agent.providers.wires.network_errors import translate_sdk  # noqa: PLC0415  # deferred: as `translate`

            raise translate_sdk(error, sdk, origin) from error


def openai_client(origin: Origin) -> "openai.AsyncOpenAI":
    """The OpenAI SDK's client, for any compatible server."""
    import openai  # noqa: PLC0415 - deferred: 0.7 s that other providers do not need

    http_client = open_client(origin)
    if not origin.endpoint.key:
        http_client.event_hooks = {**http_client.event_hooks, "request": [without_key]}
    return openai.AsyncOpenAI(
        # Without a key, the SDK would use one meant for another server, or fail.
        api_key=origin.endpoint.key or "none",
        base_url=origin.endpoint.base_url,
        max_retries=0,
        timeout=http_client.timeout,
        http_client=http_client,
    )


async def without_key(request: "httpx2.Request") -> None:
    del request.headers["authorization"]
