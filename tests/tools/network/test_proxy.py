"""The proxy of commands over real sockets: what it lets through, and what clients that mean harm get of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from typing import Any

import pytest

from ebbtide.tools.network.connection import Resolve, connect, resolve_public
from ebbtide.tools.network.destinations import NetworkDestination, parse_destination
from ebbtide.tools.network.http_head import MAX_HEAD_BYTES
from ebbtide.tools.network.proxy import MAX_CONNECTIONS, ProxyServer
from tests.kit.polling import soon

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\nX-A: b\r\n\r\nhi\n"
GIVEN_BACK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: b\r\nConnection: close\r\n\r\nhi\n"


@dataclass
class Server:
    """Answers each request in the same way, and keeps what it was sent."""

    port: int = 0
    sent: list[bytes] = field(default_factory=list)
    is_closed: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = bytearray()
        self.sent.append(b"")
        at = len(self.sent) - 1
        while chunk := await reader.read(65_536):
            data += chunk
            self.sent[at] = bytes(data)
            if data.endswith((b"\r\n\r\n", b"end")):
                writer.write(ANSWER)
        self.is_closed = True
        writer.close()


@dataclass
class OneClient:
    """Reaches example.org and what is below it."""

    asked: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    answer: asyncio.Event | None = None
    """Comes before each refusal and permission, where there is one."""

    async def refusal_reason(self, place: NetworkDestination) -> str:
        self.asked.append(str(place))
        if self.answer is not None:
            await self.answer.wait()
        is_allowed = place.host.endswith("example.org") or place.host == "127.0.0.1"
        return "" if is_allowed else f"no rule for `{place}`"

    def record_failure(self, place: NetworkDestination, why: str) -> None:
        self.refusals.append(why)


async def loopback(host: str, port: int) -> Sequence[Any]:
    """Every name stands for this machine."""
    return (ip_address("127.0.0.1"),)


class Setting:
    """A proxy, its client and a server behind it."""

    def __init__(self) -> None:
        self.server, self.client = Server(), OneClient()
        self.proxy: ProxyServer | None = None

    async def start(self, resolve: Resolve = loopback, patience: float = 10.0) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        at = {"127.0.0.1": self.client}.get
        self.proxy = ProxyServer(partial(connect, resolve=resolve), at, patience)
        await self.proxy.start(listener)
        self.listening = await asyncio.start_server(self.server.serve, "127.0.0.1", 0)
        self.server.port = self.listening.sockets[0].getsockname()[1]

    async def said_to(self, words: bytes, until: bytes = b"") -> bytes:
        """All that comes back, or what comes up to these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(words.replace(b"PORT", b"%d" % self.server.port))
        try:
            async with asyncio.timeout(5):
                return await (reader.readuntil(until) if until else reader.read())
        finally:
            writer.close()

    async def close(self) -> None:
        assert self.proxy is not None
        await self.proxy.close()
        self.listening.close()


@pytest.fixture
async def setting(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setting]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = Setting()
    yield made
    await made.close()


async def test_one_request_goes_to_the_place_in_its_first_line_whatever_else_it_says(setting: Setting) -> None:
    await setting.start()
    request = (
        b"GET http://WWW.Example.ORG.:PORT/a?b=c#d HTTP/1.1\r\nHost: other.net\r\nProxy-Authorization: Basic eA==\r\n"
        b"Connection: keep-alive, X-Gone\r\nX-Gone: 1\r\nUpgrade: h2c\r\nAccept: */*\r\n\r\n"
        b"GET http://other.net/ HTTP/1.1\r\nHost: other.net\r\n\r\n"
    )
    assert await setting.said_to(request, b"hi\n") == GIVEN_BACK
    head = b"GET /a?b=c HTTP/1.1\r\nHost: www.example.org:%d\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    assert setting.server.sent == [head % setting.server.port]
    assert setting.client.asked == [f"www.example.org:{setting.server.port}"]


async def test_a_tunnel_carries_bytes_both_ways_and_ends_with_either_end(setting: Setting) -> None:
    await setting.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", setting.port)
    writer.write(b"CONNECT example.org:%d HTTP/1.1\r\n\r\nall of it end" % setting.server.port)
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert await reader.readexactly(len(ANSWER)) == ANSWER
    assert setting.server.sent == [b"all of it end"]
    writer.close()
    await soon(lambda: setting.server.is_closed)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"Content-Length: 3\r\n\r\nendGET /x HTTP/1.1\r\nHost: other.net\r\n\r\n", b"end"),
        (
            b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-Late: 1\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
        ),
    ],
)
async def test_nothing_behind_the_body_of_a_request_is_sent_on(setting: Setting, body: bytes, sent: bytes) -> None:
    await setting.start()
    assert await setting.said_to(b"POST http://example.org:PORT/ HTTP/1.1\r\n" + body, b"hi\n") == GIVEN_BACK
    assert [each.partition(b"\r\n\r\n")[2] for each in setting.server.sent] == [sent]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.1\r\nContent-Length: +3\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\n folded: b\r\n\r\n", 400),
        (b"GET http://example.org\\@other.net/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://other.net@example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 400),
        (b"GET https://example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://example.org:99999/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT 2130706433:80 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT 0x7f.1:80 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT 0177.0.0.01:80 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT [fe80::1%25eth0]:80 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org%00.net:80 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT other.net:443 HTTP/1.1\r\n\r\n", 403),
        (b"GET http://other.net/ HTTP/1.1\r\nHost: example.org\r\n\r\n", 403),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nA: " + b"b" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
async def test_what_could_be_read_in_two_ways_or_is_not_allowed_is_refused(
    setting: Setting, request_: bytes, status: int
) -> None:
    await setting.start()
    assert (await setting.said_to(request_)).startswith(b"HTTP/1.1 %d " % status)
    assert setting.server.sent == []


async def test_a_refusal_says_why_in_its_first_line_and_to_the_call(setting: Setting) -> None:
    await setting.start()
    head, _, body = (await setting.said_to(b"CONNECT other.net:443 HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.splitlines()[0] == b"HTTP/1.1 403 no rule for `other.net`"
    assert (body, setting.client.refusals) == (b"no rule for `other.net`\n", ["no rule for `other.net`"])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "::1", "::ffff:10.0.0.1", "fd00::1"])
async def test_a_name_is_looked_up_once_and_what_it_stands_for_is_judged(
    setting: Setting, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = list[str]()

    def look_up(host: str, port: int, **_: object) -> list[Any]:
        lookups.append(host)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    await setting.start(resolve=resolve_public)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    answer = await setting.said_to(b"CONNECT rebind.example.org:PORT HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 `rebind.example.org` is ")
    assert (lookups, setting.server.sent) == (["rebind.example.org"], [])


async def test_it_connects_to_the_address_that_was_judged(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second lookup would find another one."""
    answers = ["127.0.0.1", "127.0.0.99"]

    async def resolve(host: str, port: int) -> Sequence[Any]:
        return (ip_address(answers.pop(0)),)

    await setting.start(resolve=resolve)
    assert await setting.said_to(b"GET http://example.org:PORT/ HTTP/1.1\r\n\r\n", b"hi\n") == GIVEN_BACK
    assert answers == ["127.0.0.99"]


async def test_who_sends_too_slowly_or_nothing_is_let_go(setting: Setting) -> None:
    await setting.start(patience=0.05)
    assert (await setting.said_to(b"GET http://exa")).startswith(b"HTTP/1.1 408 ")


async def test_more_connections_than_it_takes_are_told_so_and_others_still_served(setting: Setting) -> None:
    await setting.start()
    setting.client.answer = asyncio.Event()
    opened = [await asyncio.open_connection("127.0.0.1", setting.port) for _ in range(MAX_CONNECTIONS)]
    for _, writer in opened:
        writer.write(b"CONNECT other.net:443 HTTP/1.1\r\n\r\n")
    await soon(lambda: len(setting.client.asked) == MAX_CONNECTIONS)
    assert (await setting.said_to(b"CONNECT other.net:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
    setting.client.answer.set()
    for reader, writer in opened:
        assert (await reader.readline()).startswith(b"HTTP/1.1 403")
        writer.close()


async def test_it_ends_at_once_while_a_question_is_open(setting: Setting) -> None:
    await setting.start()
    setting.client.answer = asyncio.Event()
    reader, writer = await asyncio.open_connection("127.0.0.1", setting.port)
    writer.write(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
    await soon(lambda: setting.client.asked == ["example.org"])
    assert setting.proxy is not None
    async with asyncio.timeout(2):
        await setting.proxy.close()
        assert await reader.read() == b""
    writer.close()


async def test_what_cannot_be_reached_is_said_as_such(setting: Setting) -> None:
    await setting.start()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answer = await setting.said_to(b"CONNECT example.org:%d HTTP/1.1\r\n\r\n" % port)
    assert answer.startswith(b"HTTP/1.1 502 `example.org:%d` cannot be reached: " % port)


async def test_behind_a_proxy_of_the_environment_its_answer_counts(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await setting.start()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        setting.server.sent.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 yes\r\n\r\n" if b"good" in setting.server.sent[-1] else b"HTTP/1.1 407 no\r\n\r\n")
        writer.write(b"through")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as upstream:
        port = upstream.sockets[0].getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@127.0.0.1:{port}")
        good = await setting.said_to(b"CONNECT good.example.org:443 HTTP/1.1\r\n\r\n")
        bad = await setting.said_to(b"CONNECT bad.example.org:443 HTTP/1.1\r\n\r\n")
    assert good == b"HTTP/1.1 200 Connection established\r\n\r\nthrough"
    assert bad.startswith(b"HTTP/1.1 502 the environment's proxy refused `bad.example.org`: HTTP/1.1 407 no")
    assert setting.server.sent[0].splitlines()[1:3] == [
        b"Host: good.example.org:443",
        b"Proxy-Authorization: Basic bWU6cEBzcw==",
    ]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("Example.ORG.:443", "example.org"),
        ("bücher.de:80", "xn--bcher-kva.de"),
        ("example.org:22", "example.org:22"),
        ("[2001:DB8::1]:443", "[2001:db8::1]"),
        ("93.184.216.34:8080", "93.184.216.34:8080"),
    ],
)
def test_a_place_has_one_name_however_it_is_written(written: str, place: str) -> None:
    assert str(parse_destination(written)) == place


@pytest.mark.parametrize(
    "host", ["localhost", "a.localhost", "127.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "[::]"]
)
def test_some_places_are_private_by_their_name(host: str) -> None:
    assert parse_destination(host, 443).is_private
