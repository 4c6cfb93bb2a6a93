"""An httpx transport on top of httpx2: requests of an SDK built on httpx use the same proxies, certificates and
errors as all others."""

from collections.abc import AsyncIterator, Collection, Mapping

import httpx
import httpx2

from ebbtide.agent.providers.wires.bounded_errors import beginning
from ebbtide.agent.providers.wires.http import translate_errors
from ebbtide.agent.providers.wires.origin import Origin

DROPPED_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""Response headers that no longer match the decoded content."""


class Bridge(httpx.AsyncBaseTransport):
    """A transport that sends requests through another client, and closes it. Raises that client's errors, and a
    `ProviderError` if the response is missing, an error or a web page."""

    def __init__(
        self, client: httpx2.AsyncClient, origin: Origin, passed: Collection[str], added: Mapping[str, str]
    ) -> None:
        """`passed`: the request headers that are sent, together with those in `added`."""
        self._client = client
        self._origin = origin
        self._passed = passed
        self._added = added

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name in self._passed}
        content = await request.aread()
        sent = self._client.build_request(
            request.method, str(request.url), headers={**headers, **self._added}, content=content
        )
        with translate_errors(self._origin, has_begun=False):
            answer = await self._client.send(sent, stream=True)
        # Raise here: the SDK would drop its headers, such as the delay before a retry.
        if answer.status_code != 200 or "html" in answer.headers.get("content-type", ""):
            told = await beginning(b"", answer.aiter_bytes())
            await answer.aclose()
            raise self._origin.failure(answer.status_code, answer.headers, told)
        kept = [(name, value) for name, value in answer.headers.multi_items() if name not in DROPPED_HEADERS]
        return httpx.Response(answer.status_code, headers=kept, stream=_Body(answer))

    async def aclose(self) -> None:
        await self._client.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpx2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._answer.aiter_bytes():
            yield chunk

    async def aclose(self) -> None:
        await self._answer.aclose()
