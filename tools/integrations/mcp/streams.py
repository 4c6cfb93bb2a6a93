"""Base classes for the halves of a connection that the SDK reads and writes."""

from types import TracebackType
from typing import Self

import anyio
from mcp.shared.message import SessionMessage


class HalfStream:
    """One direction of a connection. By default, closing it does nothing."""

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class IncomingStream(HalfStream):
    """The incoming direction."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises `anyio.EndOfStream`."""
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
