"""Requests over plain HTTP, and the two ways a stream is cut into events."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from agent.errors import AuthFailed, BadRequest, ProviderError, RouteFailed, StreamCut, TimedOut, Unreachable
from agent.providers.base import Endpoint
from agent.providers.wires.encoding import encode
from agent.providers.wires.error_answers import tidy
from agent.providers.wires.failures import classify
from tools.lazy import dataclass

if TYPE_CHECKING:
    import httpx2

Json: TypeAlias = dict[str, Any]

LONGEST_FRAME = 64 * 1024 * 1024
"""Bytes within which a stream says something."""
BOM = b"\xef\xbb\xbf"

DONE: Json = {"type": "[DONE]"}
"""Stands for the frame that ends a Chat Completions stream and is not JSON."""


class Wire(Protocol):
    """A way to a server: takes a request's body, gives its events as they come."""

    def events(self, body: Json) -> AsyncGenerator[Json, None]:
        """The events of one answer. Raises only `ProviderError`."""
        ...

    async def prepare(self) -> None:
        """Loads the libraries that the first request needs, in a thread."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Origin:
    """Who is talked to, for errors and for the key."""

    model: str
    """`provider/name`."""
    endpoint: Endpoint

    def __post_init__(self) -> None:
        key = self.endpoint.key or ""
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise AuthFailed(f"the key for {self.model} holds characters that no key has. Check where it is set.")

    @property
    def host(self) -> str:
        return urlsplit(self.endpoint.base_url).netloc.rpartition("@")[2] or self.endpoint.base_url

    def failure(self, status: int, headers: Mapping[str, str], body: object) -> ProviderError:
        """The error that an answer of the server stands for."""
        return classify(status, headers, body, self.model, self.endpoint.key, time.time())


class LineReader:
    """Bytes in, whole lines out, however the bytes are split; CR LF and LF both end a line."""

    def __init__(self) -> None:
        self._open: list[bytes] = []

    def feed(self, chunk: bytes) -> list[str]:
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._open.append(chunk)
            return []
        whole = b"".join([*self._open, head])
        self._open = [rest] if rest else []
        return [line.removesuffix(b"\r").decode("utf-8", "replace") for line in whole.split(b"\n")]

    def close(self) -> list[str]:
        """The last line, when the stream ended without ending it."""
        return self.feed(b"\n") if self._open else []


@dataclass(slots=True)
class SseReader:
    """Bytes of a `text/event-stream` in, the `data` of whole events out. Comments and event names are left out."""

    lines: LineReader = field(default_factory=LineReader)
    data: list[str] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return self._events(self.lines.feed(chunk))

    def close(self) -> Iterator[str]:
        return self._events([*self.lines.close(), ""])

    def _events(self, lines: list[str]) -> Iterator[str]:
        for line in lines:
            name, _, value = line.partition(":")
            if not line and self.data:
                yield "\n".join(self.data)
                self.data = []
            elif name == "data":
                self.data.append(value.removeprefix(" "))


@dataclass(slots=True)
class NdjsonReader:
    """Bytes of newline-delimited JSON in, whole lines out. Blank lines are left out."""

    lines: LineReader = field(default_factory=LineReader)

    def feed(self, chunk: bytes) -> Iterator[str]:
        return (line for line in self.lines.feed(chunk) if line.strip())

    def close(self) -> Iterator[str]:
        return (line for line in self.lines.close() if line.strip())


Reader: TypeAlias = SseReader | NdjsonReader


def parse_event(text: str, origin: Origin) -> Json:
    """One event as a dict; a frame that is not a JSON object is a cut stream."""
    if text.strip() == "[DONE]":
        return DONE
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StreamCut(f"{origin.model} sent a frame that is not JSON: try again.") from error
    if not isinstance(event, dict):
        raise StreamCut(f"{origin.model} sent a frame that is not a JSON object: try again.")
    return event


async def read_events(
    headers: Mapping[str, str], chunks: AsyncIterable[bytes], reader: Reader, origin: Origin
) -> AsyncGenerator[Json, None]:
    """The events of an answer with status 200. A JSON document in place of a stream is the server's error message; a
    web page is somebody else's."""
    no_events = (b"<",) if isinstance(reader, NdjsonReader) else (b"{", b"[", b"<")
    begun, unread = False, 0
    async for chunk in chunks:
        if not begun:
            chunk = chunk.removeprefix(BOM)
            if chunk.lstrip()[:1] in no_events:
                from agent.providers.wires.bounded_errors import beginning  # noqa: PLC0415 - deferred: see `open_client`

                raise origin.failure(200, headers, await beginning(chunk, chunks))
        begun = begun or bool(chunk.strip())
        unread += len(chunk)
        for text in reader.feed(chunk):
            unread = 0
            yield parse_event(text, origin)
        if unread > LONGEST_FRAME:
            raise StreamCut(f"{origin.model} sent a frame without end: try again.")
    for text in reader.close():
        yield parse_event(text, origin)


class HttpWire:
    """The wire without an SDK: httpx2 and an API key."""

    def __init__(
        self, origin: Origin, url: str, headers: Mapping[str, str], reader: Callable[[], Reader] = SseReader
    ) -> None:
        self._origin = origin
        self._url = url
        self._headers = {"user-agent": "ebbtide", "content-type": "application/json", **headers}
        self._reader = reader
        self._client: httpx2.AsyncClient | None = None

    async def prepare(self) -> None:
        for name in ("httpx2", "httpcore2"):  # the second one would be loaded with the first client, on the event loop
            await asyncio.to_thread(import_module, name)

    async def events(self, body: Json) -> AsyncGenerator[Json, None]:
        with translated(self._origin):
            if self._client is None:
                self._client = open_client(self._origin)
            content = encode(body)
            async with AsyncExitStack() as stack:
                with translated(self._origin, has_begun=False):
                    answer = self._client.stream("POST", self._url, headers=self._headers, content=content)
                    response = await stack.enter_async_context(answer)
                if response.status_code != 200:
                    raise self._origin.failure(response.status_code, response.headers, await response.aread())
                events = read_events(response.headers, response.aiter_bytes(), self._reader(), self._origin)
                async with aclosing(events):
                    async for event in events:
                        yield event

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """The header that carries the key, when there is one."""
    return {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}


async def post_json(origin: Origin, url: str, headers: Mapping[str, str], body: Json) -> Json:
    """The answer to one request that is not streamed."""
    with translated(origin):
        async with open_client(origin) as client:
            response = await client.post(url, headers=dict(headers), json=body)
            if response.status_code != 200:
                raise origin.failure(response.status_code, response.headers, response.content)
            return parse_event(response.text, origin)


def open_client(origin: Origin) -> "httpx2.AsyncClient":
    """A client that follows no redirect, so that a key goes only where it was configured to go. Raises `RouteFailed`
    when the environment names proxies or certificates that cannot be used."""
    import httpx2  # noqa: PLC0415 - deferred: 0.1 s that a scripted run does not need

    from agent.providers.wires import proxies  # noqa: PLC0415 - deferred: as above
    from agent.providers.wires.bounded_errors import bound_error  # noqa: PLC0415 - deferred: as above
    from tools.name_lookup import look_up_aside  # noqa: PLC0415 - deferred: as above

    look_up_aside(asyncio.get_running_loop())
    endpoint = origin.endpoint
    proxies.check_proxy(endpoint.base_url)
    timeout = httpx2.Timeout(endpoint.timeout, connect=endpoint.connect_timeout)
    has_tls = endpoint.base_url.lower().startswith("https:")
    # No certificates are read for a server without TLS. A proxy with TLS would then be refused, not trusted blindly.
    verify = True if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return httpx2.AsyncClient(
            timeout=timeout, follow_redirects=False, verify=verify, event_hooks={"response": [bound_error]}
        )
    except (OSError, ValueError, ImportError, httpx2.InvalidURL) as error:
        raise proxies.no_client(error) from error


@contextmanager
def translated(origin: Origin, *, has_begun: bool = True) -> Iterator[None]:
    """Turns whatever a library raises while it talks to a server into our errors. The cause is kept for `--debug`.
    `has_begun`: something of the answer may have come."""
    try:
        yield
    except ProviderError:
        raise
    except Exception as error:  # what servers and proxies send may trip a library anywhere
        raise translate(error, origin, has_begun=has_begun) from error


def translate(error: Exception, origin: Origin, *, has_begun: bool = True) -> ProviderError:
    """Our error for what httpx2, or anything below it, raises."""
    import httpx2  # noqa: PLC0415 - deferred: see `open_client`

    match error:
        case httpx2.ConnectTimeout():
            return unreachable(origin, f"no connection within {origin.endpoint.connect_timeout:g} s")
        case httpx2.TimeoutException():
            return silent(origin)
        case httpx2.ProxyError():
            return proxy_failed(origin, str(error))
        case httpx2.ConnectError() if (problem := _tls_problem(error)) is not None:
            return tls_failed(origin, problem)
        case httpx2.ConnectError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return unreachable(origin, str(error) or type(error).__name__)
        case httpx2.LocalProtocolError():
            reason = tidy(str(error), origin.endpoint.key)
            return BadRequest(f"the request to {origin.model} cannot be sent: {reason}. Check `base_url`.")
        case httpx2.RemoteProtocolError() if "illegal status line" in str(error).lower():
            return no_http(origin)
        case ssl.SSLError():
            return tls_failed(origin, error)
        case _ if type(error).__module__.startswith("socksio"):
            return proxy_failed(origin, "it does not speak SOCKS")
        case httpx2.TransportError() if not has_begun:
            return unreachable(origin, "the connection was closed before an answer")
        case _:
            return cut(origin)


def _tls_problem(error: BaseException | None) -> ssl.SSLError | None:
    """The error of TLS that another error stands for."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def tls_failed(origin: Origin, error: ssl.SSLError) -> ProviderError:
    """What is wrong where TLS begins: the certificate, or a server that has no TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it cannot be verified"
        return RouteFailed(
            f"the certificate of `{origin.host}` for {origin.model} is not trusted: {reason}. Where a company has its "
            "own certificates, `SSL_CERT_FILE` names the file of them.",
            cause="certificate",
        )
    if re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|HTTP_REQUEST|PACKET_LENGTH_TOO_LONG", str(error)):
        return RouteFailed(
            f"`{origin.host}` for {origin.model} answers without TLS. Write `http://` in `base_url` if that is meant.",
            cause="tls",
        )
    return unreachable(origin, f"TLS failed: {error}")


def no_http(origin: Origin) -> RouteFailed:
    hint = "" if origin.endpoint.base_url.lower().startswith("https:") else ", or write `https://` if it has TLS"
    return RouteFailed(
        f"what answers at `{origin.host}` for {origin.model} does not speak HTTP. Check `base_url`{hint}.", cause="tls"
    )


def proxy_failed(origin: Origin, reason: str) -> ProviderError:
    """What a proxy says. Its refusals stay as they are; that it cannot reach the server may pass."""
    from agent.providers.wires import proxies  # noqa: PLC0415 - deferred: see `open_client`

    proxy = proxies.proxy_of(origin.endpoint.base_url)
    who = proxy.told if proxy is not None else "the proxy"
    said = tidy(reason, origin.endpoint.key) or "no reason given"
    text = f"{who} does not let {origin.model} through: {said}. Check the proxy, or unset its variable."
    if re.match(r"5\d\d\b", said) or re.search("could not connect|ttl expired", said, re.I):
        return Unreachable(text, cause="proxy")
    return RouteFailed(text, cause="proxy")


def unreachable(origin: Origin, reason: str) -> Unreachable:
    from agent.providers.wires import proxies  # noqa: PLC0415 - deferred: see `open_client`

    said = tidy(reason, origin.endpoint.key)
    proxy = proxies.proxy_of(origin.endpoint.base_url)
    way = f" through {proxy.told}" if proxy is not None else ""
    check = "the proxy" if proxy is not None else "the network"
    return Unreachable(
        f"cannot reach `{origin.host}` for {origin.model}{way}: {said}. Check {check} and `base_url`.",
        cause="proxy" if proxy is not None else "",
    )


def silent(origin: Origin) -> TimedOut:
    return TimedOut(f"{origin.model} said nothing for {origin.endpoint.timeout:g} s. Try again, or raise `timeout`.")


def cut(origin: Origin) -> StreamCut:
    return StreamCut(f"the answer of {origin.model} broke off before its end. Try again.")


async def drain(events: AsyncIterator[Json]) -> None:
    """Reads on to the end of a finished answer, so that the connection can serve the next request; not for long."""
    try:
        async with asyncio.timeout(0.25):
            async for _ in events:
                continue
    except (TimeoutError, ProviderError):  # the answer is whole: what becomes of the connection does not matter
        return
