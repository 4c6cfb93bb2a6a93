"""Proxies, certificates and servers that are none, on every wire: each way that does not work is one sentence."""

import gc
import gzip
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ebbtide.agent.errors import AuthFailed, BadRequest, ProviderError, RouteFailed, StreamCut, Unreachable
from ebbtide.agent.providers.base import Endpoint, Reply
from tests.kit.adapters import (
    ADAPTERS,
    KEY,
    WINDOW,
    Adapter,
    Library,
    collect,
    connected,
    endpoint_of,
    hello,
)
from tests.kit.fake_provider import FakeProvider, Turn
from tests.kit.proxies import answer, http_proxy, saying, socks_proxy, tls_context

PASSWORD = "swordfish-4711"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("SSL_CERT_"):
            monkeypatch.delenv(name)


async def said_by(adapter: Adapter, wire: Library, url: str) -> str:
    async with connected(adapter, wire, url) as provider:
        reply = (await collect(provider, hello()))[-1]
    assert isinstance(reply, Reply)
    return reply.message.text


async def failure_at(adapter: Adapter, wire: Library, url: str) -> ProviderError:
    async with connected(adapter, wire, url) as provider:
        with pytest.raises(ProviderError) as caught:
            await collect(provider, hello())
    assert KEY not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    return caught.value


@contextmanager
def set_variables(variables: Mapping[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.mark.parametrize(
    ("adapter", "wire", "name", "scheme"),
    [
        *((adapter, wire, "ALL_PROXY", "socks5") for adapter in ADAPTERS for wire in ("http", "sdk")),
        *((ADAPTERS[0], "http", name, "socks5h") for name in ("all_proxy", "HTTP_PROXY", "http_proxy")),
    ],
)
async def test_requests_go_through_a_socks_proxy(adapter: Adapter, wire: Library, name: str, scheme: str) -> None:
    seen: list[tuple[str, int]] = []
    with FakeProvider([Turn(text="hi")]) as server, socks_proxy(seen) as port:
        url = server.url.replace("127.0.0.1", "models.example")  # the proxy alone knows where that is
        with set_variables({name: f"{scheme}://127.0.0.1:{port}"}):
            assert await said_by(adapter, wire, url) == "hi"
    assert seen == [("models.example", int(server_port(url)))]


def server_port(url: str) -> str:
    return url.rpartition(":")[2]


# httpcore2 leaves the connection to a SOCKS proxy that refuses to the garbage collector
leaves_a_socket = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@leaves_a_socket
async def test_a_socks_proxy_may_want_a_password(adapter: Adapter, wire: Library) -> None:
    seen: list[tuple[str, int]] = []
    with FakeProvider([Turn(text="hi")]) as server, socks_proxy(seen, ("me", PASSWORD)) as port:
        with set_variables({"ALL_PROXY": f"socks5://me:{PASSWORD}@127.0.0.1:{port}"}):
            assert await said_by(adapter, wire, server.url) == "hi"
        for wrong in (f"socks5://127.0.0.1:{port}", f"socks5://me:{PASSWORD}x@127.0.0.1:{port}"):
            with set_variables({"ALL_PROXY": wrong}):
                error = await failure_at(adapter, wire, server.url)
            assert (type(error), error.cause) == (RouteFailed, "proxy")
            assert f"the proxy `socks5://127.0.0.1:{port}` (`ALL_PROXY`) blocks" in str(error)
    assert len(seen) == 1
    del error
    gc.collect()


@leaves_a_socket
async def test_a_socks_proxy_that_is_none_or_finds_nobody(adapter: Adapter, wire: Library) -> None:
    with saying(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with set_variables({"ALL_PROXY": f"socks5://127.0.0.1:{port}"}):
            error = await failure_at(adapter, wire, "http://models.example:1")
        assert (type(error), error.cause) == (RouteFailed, "proxy")
    with socks_proxy([]) as port, set_variables({"ALL_PROXY": f"socks5://127.0.0.1:{port}"}):
        error = await failure_at(adapter, wire, "http://127.0.0.1:1")
        assert (type(error), error.is_retryable) == (Unreachable, True)
    with set_variables({"ALL_PROXY": "socks5://127.0.0.1:1"}):
        error = await failure_at(adapter, wire, "http://models.example:1")
        assert "through the proxy `socks5://127.0.0.1:1` (`ALL_PROXY`)" in str(error)
    del error
    gc.collect()


@pytest.mark.parametrize("value", ["http://{}", "{}", "http://me:swordfish-4711@{}"])
async def test_requests_go_through_an_http_proxy(adapter: Adapter, wire: Library, value: str) -> None:
    seen: list[str] = []
    with FakeProvider([Turn(text="hi")]) as server, http_proxy(seen) as port:
        with set_variables({"HTTP_PROXY": value.format(f"127.0.0.1:{port}")}):
            assert await said_by(adapter, wire, server.url) == "hi"
        assert seen == [f"{server.url}{adapter.path}"]


@pytest.mark.parametrize(
    "exempt",
    ["127.0.0.1", "*", "localhost,127.0.0.1", " 127.0.0.1 ", "127.0.0.1,[::1]", "127.0.0.1,::1,.corp", ",127.0.0.1,"],
)
async def test_a_proxy_is_not_asked_for_what_is_exempt(wire: Library, exempt: str) -> None:
    variables = {"ALL_PROXY": "http://127.0.0.1:1", "NO_PROXY": exempt}
    with FakeProvider([Turn(text="hi")]) as server, set_variables(variables):
        assert await said_by(ADAPTERS[0], wire, server.url) == "hi"


@pytest.mark.parametrize(
    "value",
    [
        "socks://127.0.0.1:1080", "socks4://127.0.0.1:1080", "foo://x", "://", "http://", "http://[bad", "http://h:port",
        f"http://me:{PASSWORD}@h:port", f"http://me:{PASSWORD}@h:99999", "socks5://",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ALL_PROXY", "http_proxy"])
async def test_a_proxy_without_an_address(name: str, value: str) -> None:
    with set_variables({name: value}):
        error = await failure_at(ADAPTERS[0], "http", "http://127.0.0.1:1")
    assert (type(error), error.code, error.cause) == (RouteFailed, "network", "proxy")
    assert str(error).startswith(f"`{name}` does not contain a valid proxy address.")


async def test_a_proxy_without_an_address_is_told_on_every_wire(adapter: Adapter, wire: Library) -> None:
    with set_variables({"ALL_PROXY": "http://[bad"}):
        error = await failure_at(adapter, wire, "http://127.0.0.1:1")
    assert (type(error), error.cause) == (RouteFailed, "proxy")


async def test_certificates_that_cannot_be_read(adapter: Adapter, wire: Library, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_bytes(b"\x00no certificate")
    empty = tmp_path / "empty.pem"
    empty.touch()
    for path in (tmp_path / "nowhere.pem", tmp_path, junk, empty):
        with set_variables({"SSL_CERT_FILE": str(path)}):
            error = await failure_at(adapter, wire, "https://127.0.0.1:1")
        assert (type(error), error.cause) == (RouteFailed, "certificate")
        assert str(error).startswith(f"the certificates in `{path}`, which `SSL_CERT_FILE` names, cannot be read: ")


async def test_a_certificate_that_nobody_signed(adapter: Adapter, wire: Library, tmp_path: Path) -> None:
    with saying(answer(["content-length: 0"], b""), tls_context(tmp_path)) as port:
        url = f"https://127.0.0.1:{port}"
        error = await failure_at(adapter, wire, url)
        assert (type(error), error.cause) == (RouteFailed, "certificate")
        assert "is not trusted: self-signed certificate" in str(error)
        with set_variables({"SSL_CERT_FILE": str(tmp_path / "certificate.pem")}):
            assert type(await failure_at(adapter, wire, url)) is StreamCut  # it is trusted, and its answer is empty


async def test_tls_on_one_side_only(adapter: Adapter, wire: Library, tmp_path: Path) -> None:
    with saying(b"", tls_context(tmp_path)) as port:
        error = await failure_at(adapter, wire, f"http://127.0.0.1:{port}")
        assert isinstance(error, RouteFailed | StreamCut | Unreachable)
    with FakeProvider([]) as server:
        error = await failure_at(adapter, wire, server.url.replace("http:", "https:"))
        assert (type(error), error.cause) == (RouteFailed, "tls")
        assert "responds without TLS" in str(error)


async def test_a_server_that_does_not_speak_http(adapter: Adapter, wire: Library) -> None:
    for greeting in (b"SSH-2.0-OpenSSH_9.6\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"220 mail.example ESMTP\r\n"):
        with saying(greeting) as port:
            error = await failure_at(adapter, wire, f"http://127.0.0.1:{port}")
        assert isinstance(error, RouteFailed | Unreachable), greeting


async def test_a_connection_that_is_closed_before_an_answer_is_an_outage(adapter: Adapter, wire: Library) -> None:
    with saying(b"") as port:
        error = await failure_at(adapter, wire, f"http://127.0.0.1:{port}")
    assert type(error) is Unreachable
    assert "the connection was closed before a response" in str(error)


GARBLED = {
    "no gzip": answer(["content-type: text/event-stream", "content-encoding: gzip"], b"no gzip at all"),
    "half of gzip": answer(
        ["content-type: text/event-stream", "content-encoding: gzip"], gzip.compress(b"data: {}\n\n" * 99)[:40]
    ),
    "bad chunks": answer(["content-type: text/event-stream", "transfer-encoding: chunked"], b"zz\r\nwhat\r\n"),
    "too short": answer(["content-type: text/event-stream", "content-length: 9999"], b"data: {}\n\n"),
    "two lengths": answer(["content-length: 5", "content-length: 7"], b"data:"),
    "bad header": answer(["content-type: text/event-stream", "x-odd: \x01\x02\x7f"], b"data: {}\n\n"),
    "no charset": answer(["content-type: text/event-stream; charset=klingon"], b"data: {}\n\n"),
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-",
    "a status that is none": b"HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n",
    "bytes": answer(["content-type: text/event-stream"], bytes(range(128, 256)) * 20),
}


@pytest.mark.parametrize("name", GARBLED)
async def test_an_answer_that_is_garbled(adapter: Adapter, wire: Library, name: str) -> None:
    with saying(GARBLED[name]) as port:
        await failure_at(adapter, wire, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "frame",
    ["[]", "[1, 2]", "17", '"text"', "null", "true", "{", "[" * 5000, '{"a":' * 5000, '{"type": 5, "message": 7}',
     '{"choices": 3}', '{"choices": [null]}', '{"message": "x", "done": true}', '{"error": []}', '{"error": 17}',
     '{"type": "error", "error": "x"}', '{"type": "content_block_delta", "index": 9, "delta": null}'],
)  # fmt: skip
async def test_a_frame_that_is_no_event(adapter: Adapter, wire: Library, frame: str) -> None:
    body = f"{frame}\n" if adapter.name == "ollama" else f"data: {frame}\n\n"
    with saying(answer(["content-type: text/event-stream"], body.encode())) as port:
        await failure_at(adapter, wire, f"http://127.0.0.1:{port}")


async def test_a_web_page_in_place_of_an_answer(adapter: Adapter, wire: Library) -> None:
    page = b"<!DOCTYPE html><html><head><title>Welcome to Hotel WiFi</title></head><body>Log in</body></html>"
    with saying(answer(["content-type: text/html"], page)) as port:
        error = await failure_at(adapter, wire, f"http://127.0.0.1:{port}")
    assert (type(error), error.cause) == (RouteFailed, "portal")
    assert "Welcome to Hotel WiFi" in str(error)


async def test_a_web_page_behind_a_mark_and_a_comment(adapter: Adapter, wire: Library) -> None:
    page = b"\xef\xbb\xbf\n<!-- portal --><!-- v2 -->\n<html><title>Log in</title></html>"
    with saying(answer(["content-type: text/html"], page)) as port:
        error = await failure_at(adapter, wire, f"http://127.0.0.1:{port}")
    assert (type(error), error.cause) == (RouteFailed, "portal")


async def test_an_error_is_read_no_further_than_it_is_of_use(adapter: Adapter, wire: Library) -> None:
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 3000000000\r\n\r\n"
    with saying(head + b"no " * 100_000) as port:
        assert type(await failure_at(adapter, wire, f"http://127.0.0.1:{port}")) is BadRequest


async def test_a_redirect_is_not_followed(adapter: Adapter, wire: Library) -> None:
    with FakeProvider([Turn(status=307, headers={"location": "https://elsewhere.example/x"}, body="")]) as server:
        error = await failure_at(adapter, wire, server.url)
    assert type(error) is BadRequest
    assert "redirects to `https://elsewhere.example/x`" in str(error) or wire == "sdk"


@pytest.mark.parametrize(
    "key", ["sk-naïve-0123456789", "sk-two\nlines", "sk-end\n", " sk-begin", "sk-\x00nul", "sk-\ud800"]
)
def test_a_key_that_cannot_be_sent(adapter: Adapter, wire: Library, key: str) -> None:
    with pytest.raises(AuthFailed) as caught:
        adapter.make(adapter.facts, WINDOW, endpoint_of(adapter, "http://127.0.0.1:1", key=key), wire)
    assert key.strip() not in str(caught.value)


def test_an_endpoint_does_not_show_its_secrets() -> None:
    representation = repr(Endpoint(f"https://me:{PASSWORD}@models.example", KEY))
    assert PASSWORD not in representation
    assert KEY not in representation
