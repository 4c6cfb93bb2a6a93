"""httpx's seam for transports, over httpx2: what an SDK that is built on the older one sends goes the same way as all
other requests, with the same proxies, certificates and errors."""

from collections.abc import AsyncIterator, Collection, Mapping

import httpx
import httpx2

from ebbtide.agent.providers.wires.bounded_errors import beginning
from ebbtide.agent.providers.wires.http import translate_errors
from ebbtide.agent.providers.wires.origin import Origin

DROPPED_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""Of an answer: they say nothing true of what is passed on."""


class Bridge(httpx.AsyncBaseTransport):
    """A transport that sends requests by another client, which it closes. It raises that client's errors, and ours
    where nothing, an error or a web page comes in place of an answer."""

    def __init__(
        self, client: httpx2.AsyncClient, origin: Origin, passed: Collection[str], added: Mapping[str, str]
    ) -> None:
        """Of each request's headers only those in `passed` are sent, with those in `added`."""
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
        # The SDK would pass on no header of it, such as how long to wait.
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
