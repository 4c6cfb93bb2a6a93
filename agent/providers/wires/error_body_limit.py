"""Limits how much of an error response is read, since a server may send data endlessly."""

from collections.abc import AsyncIterable, AsyncIterator

import httpx2

MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes read from an error response."""


async def truncate_error_body(response: httpx2.Response) -> None:
    """Client hook that truncates the body of an error response to `MAX_ERROR_BYTES`."""
    if response.status_code != 200 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _TruncatedStream(response.stream)


async def read_prefix(chunk: bytes, chunks: AsyncIterable[bytes], max_bytes: int) -> bytes:
    """Read the first `max_bytes` bytes of a document that begins with `chunk` and continues with `chunks`."""
    received_chunks, byte_count = [chunk], len(chunk)
    async for next_chunk in chunks:
        if byte_count > max_bytes:
            break
        received_chunks.append(next_chunk)
        byte_count += len(next_chunk)
    return b"".join(received_chunks)[:max_bytes]


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
