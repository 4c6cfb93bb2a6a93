"""Limits how much of an error response is read, since a server may send data endlessly."""

from collections.abc import AsyncIterable, AsyncIterator

import httpx2

MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes read of an error response."""


async def truncate_error_body(response: httpx2.Response) -> None:
    """Client hook: truncates the body of an error response to `MAX_ERROR_BYTES`."""
    if response.status_code != 200 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _TruncatedStream(response.stream)


async def read_beginning(chunk: bytes, chunks: AsyncIterable[bytes], limit: int) -> bytes:
    """Return the first `limit` bytes of a document that begins with `chunk` and continues with `chunks`."""
    parts, size = [chunk], len(chunk)
    async for rest in chunks:
        if size > limit:
            break
        parts.append(rest)
        size += len(rest)
    return b"".join(parts)[:limit]


class _TruncatedStream(httpx2.AsyncByteStream):
    def __init__(self, whole: httpx2.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        remaining = MAX_ERROR_BYTES
        async for chunk in self._whole:
            yield chunk[:remaining]
            remaining -= len(chunk)
            if remaining <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()
