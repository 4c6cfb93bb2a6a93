"""What httpx2 raises, as our errors, and the client that it is raised by."""

import gzip
import json
import ssl
import zlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.errors import AuthFailed, BadRequest, ProviderError, RouteFailed, StreamCut, TimedOut, Unreachable
from ebbtide.agent.providers.base import Endpoint
from ebbtide.agent.providers.registry import find_registry_facts
from ebbtide.agent.providers.wires import anthropic, http
from ebbtide.agent.providers.wires.adapter import WireProvider
from ebbtide.agent.providers.wires.http import SseReader, open_httpx_client, read_events
from ebbtide.agent.providers.wires.network_errors import translate_error
from ebbtide.agent.providers.wires.origin import Origin
from tests.kit.adapters import KEY, collect, hello

ORIGIN = Origin("p/m", Endpoint("https://user:secret@models.example:8443/v1", KEY, timeout=300, connect_timeout=10))


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (httpx2.ConnectTimeout("x"), Unreachable, "`models.example:8443` for p/m: no connection within 10 s"),
        (httpx2.ConnectError("[Errno -2] Name or service not known"), Unreachable, "Name or service not known"),
        (httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]"), Unreachable, "CERTIFICATE_VERIFY_FAILED"),
        (httpx2.ProxyError("407 Proxy Authentication Required"), RouteFailed, "407 Proxy"),
        (httpx2.ProxyError("502 Bad Gateway"), Unreachable, "502"),
        (httpx2.ProxyError("Proxy Server could not connect: Connection refused."), Unreachable, "refused"),
        (httpx2.RemoteProtocolError("illegal status line: b'SSH-2.0'"), RouteFailed, "does not speak HTTP"),
        (ssl.SSLError("[SSL] broken"), Unreachable, "TLS failed"),
        (KeyError("whatever a library trips over"), StreamCut, "was cut off"),
        (httpx2.UnsupportedProtocol("no scheme"), Unreachable, "no scheme"),
        (httpx2.InvalidURL("bad port"), Unreachable, "bad port"),
        (httpx2.ReadTimeout("x"), TimedOut, "did not respond for 300 s"),
        (httpx2.WriteTimeout("x"), TimedOut, "p/m"),
        (httpx2.ReadError("reset"), StreamCut, "was cut off"),
        (httpx2.RemoteProtocolError("closed"), StreamCut, "was cut off"),
        (httpx2.DecodingError("gzip"), StreamCut, "was cut off"),
        (httpx2.LocalProtocolError(f"Illegal header value b'{KEY}'"), BadRequest, "cannot be sent"),
    ],
)
def test_what_the_network_says(error: Exception, kind: type[ProviderError], words: str) -> None:
    translated = translate_error(error, ORIGIN)
    assert type(translated) is kind
    assert words in str(translated)
    assert KEY not in str(translated)
    assert "secret" not in str(translated)


async def test_certificates_are_checked_wherever_there_is_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []
    original = httpx2.AsyncClient.__init__

    def spy(self: httpx2.AsyncClient, **options: object) -> None:
        made.append(options)
        original(self, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(httpx2.AsyncClient, "__init__", spy)
    for url in ("https://models.example", "HTTPS://models.example", "http://127.0.0.1:1"):
        await open_httpx_client(Origin("p/m", Endpoint(url))).aclose()
    assert [options.get("verify", True) is True for options in made] == [True, True, False]
    context = made[2]["verify"]
    assert isinstance(context, ssl.SSLContext)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert all(options["follow_redirects"] is False for options in made)


async def test_anthropics_sdk_without_a_key_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    facts = find_registry_facts("anthropic", "claude-opus-4-5")
    provider = WireProvider(anthropic.ADAPTER, facts, Window(200_000, 8_192), Endpoint(""), "sdk")
    with pytest.raises(AuthFailed, match="ANTHROPIC_API_KEY"):
        await collect(provider, hello())
    await provider.close()


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_frame_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_FRAME_BYTES", 1000)
    whole = b'data: {"a": "' + b"x" * 900 + b'"}\n\n'
    events = read_events({}, _chunks(whole, whole, b"data: {", b"x" * 1000, b"x"), SseReader(), ORIGIN)
    assert len([await anext(events), await anext(events)]) == 2
    with pytest.raises(StreamCut, match="an endless frame"):
        await anext(events)


async def test_a_mark_before_the_first_frame_is_left_out() -> None:
    events = read_events({}, _chunks(b"\xef\xbb\xbfdata: {}\n\n"), SseReader(), ORIGIN)
    assert [event async for event in events] == [{}]


@pytest.mark.parametrize("size", [10, 7, 100_000])
async def test_gzip_that_no_header_names_is_read(size: int) -> None:
    """Proxies before OpenRouter and Gemini send it (Marinara-Engine 781 and 771)."""
    text = b"".join(b'data: {"n": %d}\n\n' % number for number in range(2_000))
    packed = gzip.compress(text)
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    events = [event async for event in read_events({}, _chunks(*pieces), SseReader(), ORIGIN)]
    assert events == [{"n": number} for number in range(2_000)]
    document = gzip.compress(b'{"choices": [1]}')
    assert [event async for event in read_events({}, _chunks(document), SseReader(), ORIGIN)] == [{"choices": [1]}]


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("padding", [b"", bytes(9)])
async def test_gzip_with_a_member_for_each_flush_is_read(size: int, padding: bytes) -> None:
    """A relay compresses each piece for itself (claude-relay-service issue 1027), and any piece may begin a chunk."""
    text = b'data: {"n": 1}\n\n'
    packed = gzip.compress(text) + gzip.compress(text * 3) + padding
    pieces = [packed[start : start + size] for start in range(0, len(packed), size)]
    assert [event async for event in read_events({}, _chunks(*pieces), SseReader(), ORIGIN)] == [{"n": 1}] * 4


async def test_what_is_held_back_at_the_limit_of_a_piece_is_read() -> None:
    text = bytes(3 * 1024 * 1024 + 7)
    assert b"".join([piece async for piece in http.unzip_chunks(_chunks(gzip.compress(text)))]) == text


@pytest.mark.parametrize("text", [b"\x1f", b"\x1fdata", b"d"])
async def test_a_body_that_only_begins_like_gzip_is_left_alone(text: bytes) -> None:
    assert b"".join([piece async for piece in http.unzip_chunks(_chunks(text))]) == text


def test_an_error_in_gzip_that_no_header_names_is_read() -> None:
    """Anthropic's servers send such errors (CLIProxyAPI pull request 1834)."""
    body = gzip.compress(b'{"error": {"message": "the tools are invalid"}}')
    assert "the tools are invalid" in str(ORIGIN.response_error(400, {}, body))
    assert "rejected the request" in str(ORIGIN.response_error(400, {}, body[:5] + b"damaged"))


def test_an_event_of_many_lines_is_read_in_linear_time() -> None:
    """Each line was parsed with all lines before it: 300,000 of them took minutes."""
    lines = [b"{", *(b'"n": %d,' % number for number in range(200_000)), b'"end": 1}']
    raw = b"".join(b"data: %s\n" % line for line in lines)
    [event] = SseReader().feed(raw + b"\n")
    assert len(json.loads(event)) == 2


async def test_damaged_gzip_is_an_error_and_a_bomb_an_endless_frame() -> None:
    packed = gzip.compress(b'data: {"n": 1}\n\n' * 9)
    with pytest.raises(zlib.error):
        [event async for event in read_events({}, _chunks(packed[:-8] + bytes(8)), SseReader(), ORIGIN)]
    bomb = gzip.compress(b"data: " + bytes(200 * 1024 * 1024))
    with pytest.raises(StreamCut, match="an endless frame"):
        [event async for event in read_events({}, _chunks(bomb), SseReader(), ORIGIN)]
