"""The local address that a browser is sent back to after a login. It listens on the loopback alone, and takes nothing
but the answer to the login that is going on. It knows no protocol beyond that."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, urlsplit

_PATH = "/callback"
_LONGEST_REQUEST = 16_384
"""Bytes of the first line."""
_PATIENCE = 10.0
"""Seconds for a browser to send its request."""

_PAGE = (
    "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {size}\r\n"
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}"
)


class Callback:
    """Waits for the browser to come back from the login that `expect` was told of."""

    def __init__(self) -> None:
        self.port = 0
        self._state = ""
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{_PATH}"

    def expect(self, login: str) -> None:
        """From now on the answer to the login at this address is taken, and no other."""
        self._state = dict(parse_qsl(urlsplit(login).query)).get("state", "")

    async def answer(self) -> Mapping[str, str]:
        """What the browser brought: `code` and `state`, or `error`."""
        return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request."""
        try:
            async with asyncio.timeout(_PATIENCE):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                status, text = self._take(line.decode("ascii", "replace"))
                page = f"<!doctype html><title>Ebbtide</title><p>{text}</p>"
                writer.write(_PAGE.format(status=status, size=len(page.encode()), page=page).encode())
                await writer.drain()
        except (TimeoutError, ValueError, ConnectionError):
            return  # nobody that we wait for
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _take(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        url = urlsplit(rest.partition(" ")[0])
        given = dict(parse_qsl(url.query))
        if method != "GET" or url.path != _PATH:
            return "404 Not Found", "There is nothing here."
        if not self._state or given.get("state") != self._state:
            return "400 Bad Request", "This is not the answer to the login that is going on."
        if not self._answer.done():
            self._answer.set_result(given)
        if "error" in given:
            return "200 OK", "You are not logged in. You can close this page."
        return "200 OK", "You are logged in. You can close this page."


@asynccontextmanager
async def callback(port: int) -> AsyncIterator[Callback]:
    """Listens on this port of the loopback, or on any free one. Raises `OSError` when the port is taken."""
    back = Callback()
    server = await asyncio.start_server(back.serve, "127.0.0.1", port, limit=_LONGEST_REQUEST)
    back.port = server.sockets[0].getsockname()[1]
    try:
        yield back
    finally:
        server.close()
        await server.wait_closed()
