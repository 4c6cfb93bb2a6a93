"""Limits how much of an error response httpx2 reads."""

from collections.abc import AsyncIterator

import httpx2

from ebbtide.agent.providers.wires.direct_client import MAX_ERROR_BYTES


async def truncate_error_body(response: httpx2.Response) -> None:
    """Client hook that truncates the body of an error response to `MAX_ERROR_BYTES`."""
    if response.status_code != 200 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _TruncatedStream(response.stream)


class _TruncatedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_ERROR_BYTES
        async for chunk in self._stream:
            yield chunk[:remaining]
            remaining -= len(chunk)
            if remaining <= 0:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()
