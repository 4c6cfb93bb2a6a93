"""An httpx transport that sends requests through httpx2. With it, an SDK built on httpx uses the same proxies,
certificates and errors as all other requests."""

from collections.abc import AsyncIterator, Collection, Mapping

import httpx
import httpx2

from ebbtide.agent.providers.wires.direct_client import MAX_ERROR_BYTES, read_prefix
from ebbtide.agent.providers.wires.http import translate_errors
from ebbtide.agent.providers.wires.origin import Origin

DROPPED_HEADERS = ("content-encoding", "content-length", "transfer-encoding")
"""Response headers that no longer match the decoded content."""


class HttpxTransport(httpx.AsyncBaseTransport):
    """A transport that sends requests through an httpx2 client, and owns that client. Raises the client's errors, and
    `ProviderError` if there is no response, or if the response is an error or a web page."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        origin: Origin,
        passed_headers: Collection[str],
        added_headers: Mapping[str, str],
    ) -> None:
        """`passed_headers`: names of the SDK's request headers that are sent. `added_headers`: headers that are sent in
        addition."""
        self._client = client
        self._origin = origin
        self._passed_headers = passed_headers
        self._added_headers = added_headers

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name in self._passed_headers}
        content = await request.aread()
        outgoing = self._client.build_request(
            request.method, str(request.url), headers={**headers, **self._added_headers}, content=content
        )
        with translate_errors(self._origin, has_response_started=False):
            response = await self._client.send(outgoing, stream=True)
        # The error must be raised here, because the SDK would drop the headers, which may state the delay before a
        # retry.
        if response.status_code != 200 or "html" in response.headers.get("content-type", ""):
            body = await read_prefix(b"", response.aiter_bytes(), MAX_ERROR_BYTES)
            await response.aclose()
            raise self._origin.response_error(response.status_code, response.headers, body)
        forwarded = [(name, value) for name, value in response.headers.multi_items() if name not in DROPPED_HEADERS]
        return httpx.Response(response.status_code, headers=forwarded, stream=_BodyStream(response))

    async def aclose(self) -> None:
        await self._client.aclose()


class _BodyStream(httpx.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._response.aiter_bytes():
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()
