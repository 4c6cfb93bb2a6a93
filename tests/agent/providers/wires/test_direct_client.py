"""The HTTP client for servers without a proxy: what it sends, how it reads a response however it arrives, and which
connections it uses again."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, closing, suppress
from pathlib import Path

import h11
import pytest

from ebbtide.agent.errors import BadRequest, ProviderError, RouteFailed, StreamCut, TimedOut, Unreachable
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.wires import direct_client
from ebbtide.agent.providers.wires.certificates import find_certificates
from ebbtide.agent.providers.wires.direct_client import (
    Connection,
    DirectClient,
    can_connect_directly,
    join_headers,
    split_url,
)
from ebbtide.agent.providers.wires.origin import Origin
from tests.kit.polling import until

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class ScriptedServer:
    """Answers the requests of each connection in turn with the bytes of a script, and notes the requests."""

    def __init__(self, scripts: Sequence[Sequence[bytes]], piece_size: int, *, ends: bool) -> None:
        self.requests: list[list[bytes]] = []
        self._scripts = scripts
        self._piece_size = piece_size
        self._ends = ends
        self._handlers: list[asyncio.Task[None]] = []
        self.url = ""

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handlers.append(asyncio.create_task(self._answer(reader, writer)))

    async def close(self) -> None:
        """Wait until the client has closed its connections."""
        await asyncio.gather(*self._handlers)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):  # the client may go away
            await self._answer_requests(reader, writer)

    async def _answer_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        self.requests.append(requests)
        for response in self._scripts[len(self.requests) - 1]:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(line[15:]) for line in head.splitlines() if line.startswith(b"content-length:")), 0)
            requests.append(head + await reader.readexactly(length))
            for start in range(0, len(response), self._piece_size):
                writer.write(response[start : start + self._piece_size])
                await writer.drain()
                await asyncio.sleep(0)
        if self._ends:
            writer.write_eof()
        await reader.read()


@asynccontextmanager
async def serving(
    *scripts: Sequence[bytes], piece_size: int = 1 << 20, ends: bool = True
) -> AsyncIterator[ScriptedServer]:
    """A server whose nth connection has the nth script. After it, the server `ends` the connection or stays silent."""
    server = ScriptedServer(scripts, piece_size, ends=ends)
    async with await asyncio.start_server(server.accept, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1?a=b c"
        yield server
        await server.close()


def client_for(server: ScriptedServer, timeout: float = 10) -> DirectClient:
    return DirectClient(Origin("p/m", Endpoint(server.url, "key", timeout=timeout)))


async def post(client: DirectClient, url: str, content: bytes = b"{}") -> bytes:
    async with client.stream("POST", url, headers={"X-Key": "k"}, content=content) as response:
        return await response.aread()


async def test_what_a_request_says() -> None:
    async with serving([HELLO]) as server, aclosing(client_for(server)) as client:
        assert await post(client, server.url) == b"hello"
    head, _, body = server.requests[0][0].partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert (first, body) == ("POST /v1?a=b%20c HTTP/1.1", b"{}")
    assert {"x-key: k", "content-length: 2", "accept-encoding: gzip", f"host: {server.url[7:].split('/')[0]}"} <= {
        *lines
    }


@pytest.mark.parametrize("piece_size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("response", "body"),
    [
        (HELLO, b"hello"),
        (HELLO.replace(b"\r\n", b"\n"), b"hello"),
        (CHUNKED + b"5\r\nhello\r\n1a;x=y\r\n" + b"-" * 26 + b"\r\n0\r\n\r\n", b"hello" + b"-" * 26),
        (CHUNKED + b"5\r\nhello\r\n0\r\nx-checksum: 7\r\n\r\n", b"hello"),
        (b"HTTP/1.0 200\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
async def test_a_body_is_read_however_it_is_sent(response: bytes, body: bytes, piece_size: int) -> None:
    async with serving([response], piece_size=piece_size) as server, aclosing(client_for(server)) as client:
        assert await post(client, server.url) == body


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n",
        CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5_0\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"1" * 100_000 + b"\r\n",
    ],
)
async def test_a_body_that_is_cut_or_garbled_is_an_error(response: bytes) -> None:
    async with serving([response]) as server, aclosing(client_for(server)) as client:
        with pytest.raises(StreamCut):
            await post(client, server.url)


@pytest.mark.parametrize(
    ("response", "kind", "words"),
    [
        (b"", Unreachable, "closed before a response"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", Unreachable, "closed before a response"),
        (b"HTTP/1.1 OK\r\n\r\n", Unreachable, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\nhello", Unreachable, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello", Unreachable, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 50_000, Unreachable, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\na: " + b"b" * 500_000, Unreachable, "not valid HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", RouteFailed, "does not speak HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x46", RouteFailed, "does not speak HTTP"),
    ],
)
async def test_what_is_no_response_is_an_error(response: bytes, kind: type[ProviderError], words: str) -> None:
    async with serving([response]) as server, aclosing(client_for(server)) as client:
        with pytest.raises(kind, match=words):
            await post(client, server.url)


async def test_a_connection_is_used_again_after_a_whole_response() -> None:
    chunked = CHUNKED + b"5\r\nhello\r\n0\r\n\r\n"
    async with serving([HELLO, chunked, HELLO]) as server, aclosing(client_for(server)) as client:
        assert [await post(client, server.url) for _ in range(3)] == [b"hello"] * 3
    assert [len(requests) for requests in server.requests] == [3]


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        HELLO,  # the server closes the connection after it
        HELLO + b"HTTP/1.1 408 Request Timeout\r\n\r\n",
    ],
)
async def test_a_connection_that_ends_is_not_used_again(first: bytes) -> None:
    async with serving([first], [HELLO]) as server, aclosing(client_for(server)) as client:
        assert await post(client, server.url) == b"hello"
        await until(lambda: not any(connection.is_usable for connection in client._idle_connections))
        assert await post(client, server.url) == b"hello"
    assert [len(requests) for requests in server.requests] == [1, 1]


async def test_a_connection_with_an_unread_response_is_closed() -> None:
    async with serving([HELLO], [HELLO]) as server, aclosing(client_for(server)) as client:
        async with client.stream("GET", server.url, headers={}) as response:
            assert response.status_code == 200
        assert await post(client, server.url) == b"hello"
    assert [len(requests) for requests in server.requests] == [1, 1]


async def test_a_connection_that_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_client, "IDLE_TIMEOUT_S", 0)
    async with serving([HELLO, HELLO], [HELLO]) as server, aclosing(client_for(server)) as client:
        assert [await post(client, server.url) for _ in range(2)] == [b"hello"] * 2
    assert len(server.requests) == 2


async def test_requests_at_once_have_connections_of_their_own() -> None:
    async with serving([HELLO], [HELLO], [HELLO]) as server, aclosing(client_for(server)) as client:
        assert await asyncio.gather(*(post(client, server.url) for _ in range(3))) == [b"hello"] * 3


async def test_cookies_are_sent_back() -> None:
    first = HELLO.replace(b"\r\n\r\n", b"\r\nset-cookie: a=1; Path=/\r\nSet-Cookie: b=2==; HttpOnly\r\n\r\n")
    second = HELLO.replace(b"\r\n\r\n", b"\r\nset-cookie: a=3\r\n\r\n")
    async with serving([first, second, HELLO]) as server, aclosing(client_for(server)) as client:
        for _ in range(3):
            await post(client, server.url)
    assert b"cookie" not in server.requests[0][0]
    assert b"\r\ncookie: a=1; b=2==\r\n" in server.requests[0][1]
    assert b"\r\ncookie: a=3; b=2==\r\n" in server.requests[0][2]


async def test_a_response_to_half_a_request_is_read_although_the_connection_breaks() -> None:
    connection = Connection(("http", "x.example", 80))
    connection.data_received(HELLO)
    connection.pause_writing()
    connection.connection_lost(ConnectionResetError())
    response, body, end = [await connection.read_event() for _ in range(3)]
    assert isinstance(response, h11.Response)
    assert (response.status_code, body, end) == (200, h11.Data(b"hello"), h11.EndOfMessage())
    assert not connection.is_usable


@pytest.mark.parametrize("response", [b"", b"HTTP/1.1 200 OK\r\n", HELLO[:-1], CHUNKED + b"5\r\nhel"])
async def test_silence_is_a_timeout(response: bytes) -> None:
    async with serving([response], ends=False) as server, aclosing(client_for(server, timeout=0.05)) as client:
        with pytest.raises(TimedOut):
            await post(client, server.url)


async def test_a_server_that_is_not_there() -> None:
    async with aclosing(DirectClient(Origin("p/m", Endpoint("http://127.0.0.1:1")))) as client:
        with pytest.raises(Unreachable, match=r"cannot reach `127\.0\.0\.1:1` for p/m: Connection refused\."):
            await post(client, "http://127.0.0.1:1")
    async with aclosing(DirectClient(Origin("p/m", Endpoint("http://no-such-host.invalid")))) as client:
        with pytest.raises(Unreachable, match=r"`no-such-host\.invalid` for p/m: "):
            await post(client, "http://no-such-host.invalid")


async def test_a_header_cannot_add_others() -> None:
    async with serving([]) as server, aclosing(client_for(server)) as client:
        with pytest.raises(BadRequest, match="the header `x-odd` contains invalid characters"):
            async with client.stream("GET", server.url, headers={"X-Odd": "a\r\nb: c"}):
                pass
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "is_direct"),
    [
        ("https://api.anthropic.com", True),
        ("HTTP://localhost:8080/v1/", True),
        ("http://[::1]:8080/v1", True),
        ("https://x.example/openai?api-version=2", True),
        ("https://user:password@x.example", False),
        ("https://bücher.example", False),
        ("http://127.0.0.1:99999", False),
        ("http://127.0.0.1:0", False),
        ("ftp://x.example", False),
        ("http://", False),
        ("http://x.example/a b", False),
        ("http://x.example/\r\nhost: y", False),
    ],
)
def test_what_is_sent_without_httpx2(url: str, is_direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert can_connect_directly(url) is is_direct
    monkeypatch.setenv("ALL_PROXY", "")
    assert can_connect_directly(url) is is_direct
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert not can_connect_directly(url)


def test_an_address_is_split_into_server_and_target() -> None:
    assert split_url("https://x.example") == (("https", "x.example", 443), "/")
    assert split_url("http://[::1]:81/a%20b/ü?q=é|") == (("http", "::1", 81), "/a%20b/%C3%BC?q=%C3%A9%7C")


def test_repeated_headers_are_joined() -> None:
    assert join_headers([(b"retry-after", b"7"), (b"x-a", b"1"), (b"x-a", b"\xfc")]) == {
        "retry-after": "7",
        "x-a": "1, \u00fc",
    }


def test_certificates_of_the_system_are_found_where_openssl_does_not_look(tmp_path: Path) -> None:
    def paths(file: Path, folder: Path) -> ssl.DefaultVerifyPaths:
        return ssl.DefaultVerifyPaths("", "", "SSL_CERT_FILE", str(file), "SSL_CERT_DIR", str(folder))

    nowhere, file, folder = tmp_path / "nowhere", tmp_path / "cert.pem", tmp_path / "certs"
    fallback = find_certificates(paths(nowhere, nowhere))
    folder.mkdir()
    assert find_certificates(paths(nowhere, folder)) == fallback
    (folder / "0a1b2c3d.0").touch()
    assert find_certificates(paths(nowhere, folder)) == (None, str(folder))
    file.touch()
    assert find_certificates(paths(file, nowhere)) == (str(file), None)
