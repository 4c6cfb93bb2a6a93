"""Limits how much of a server's error response is read: a server may send without end."""

from collections.abc import AsyncIterable, AsyncIterator

import httpx2

MAX_ERROR_BYTES = 64 * 1024
"""Largest part of an error response that is read, in bytes."""


async def bound_error(response: httpx2.Response) -> None:
    """Client hook: truncate an error's body to `MAX_ERROR_BYTES`."""
    if response.status_code != 200 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Beginning(response.stream)


async def beginning(chunk: bytes, chunks: AsyncIterable[bytes]) -> bytes:
    """Read the rest of a document that began with a chunk, up to `MAX_ERROR_BYTES`."""
    parts, size = [chunk], len(chunk)
    async for rest in chunks:
        if size > MAX_ERROR_BYTES:
            break
        parts.append(rest)
        size += len(rest)
    return b"".join(parts)[:MAX_ERROR_BYTES]


class _Beginning(httpx2.AsyncByteStream):
    def __init__(self, whole: httpx2.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ERROR_BYTES
        async for chunk in self._whole:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()
