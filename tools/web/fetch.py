"""Fetches one web page, with limits on size, time and redirects."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus

import httpcore2

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.network.addresses import is_private
from ebbtide.tools.network.name_lookup import PrivateAddress
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.web.addresses import WHAT_COULD_BE, WebAddress, behind, is_allowed
from ebbtide.tools.web.connection import pool_for

MAX_PAGE_BYTES = 5_000_000
"""Maximum size of a page in bytes, both compressed and decompressed."""
FETCH_TIMEOUT_S = 60.0
"""Seconds in total. The part of a page received by then is shown."""
CONNECT_TIMEOUT_S = 15.0
MAX_REDIRECTS = 5

_HEADERS = (
    ("user-agent", "ebbtide"),
    ("accept", "text/markdown, text/html;q=0.9, text/plain;q=0.8, */*;q=0.5"),
    ("accept-encoding", "gzip"),
)


@dataclass(frozen=True, slots=True)
class Page:
    address: WebAddress
    """The address after all redirects."""
    media_type: str
    charset: str
    """As declared by the server, or empty."""
    content: bytes
    left_out: str = ""
    """Why the content is incomplete, or an empty string."""


@dataclass(frozen=True, slots=True)
class Redirect:
    to: str


async def fetch(address: WebAddress, private: Sequence[str] = ()) -> Page:
    """Fetch a page. `private`: permitted hosts on private networks. Redirects to another host or port are not followed,
    since permission covers only this one. Raises `ToolError`."""
    start = asyncio.get_running_loop().time()
    for _ in range(MAX_REDIRECTS + 1):
        left = FETCH_TIMEOUT_S - (asyncio.get_running_loop().time() - start)
        try:
            found = await _once(address, is_allowed(address, private), left)
        except PrivateAddress as error:
            raise ToolError(f"not fetched: {error}; {WHAT_COULD_BE}") from error
        except TimeoutError as error:
            raise ToolError(
                f"`{address.place}` did not answer within {FETCH_TIMEOUT_S:.0f} s: try again later"
            ) from error
        except (
            httpcore2.NetworkError,
            httpcore2.TimeoutException,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
        ) as error:
            said = printable(str(error) or type(error).__name__)[:300].rstrip(".")
            raise ToolError(f"cannot reach `{address.place}`: {said}. Check the address") from error
        if isinstance(found, Page):
            return found
        following = behind(address, found.to)
        if following.place != address.place:
            if is_private(following.host) and not is_allowed(following, private):
                raise ToolError(f"not fetched: it redirects to `{following.place}`, which is on a private network")
            what = "host" if following.host != address.host else "port"
            raise ToolError(f"it redirects to another {what}: call web_fetch with `{printable(str(following))}`")
        address = following
    raise ToolError(f"`{address.place}` redirects more than {MAX_REDIRECTS} times: give the address that it leads to")


async def _once(address: WebAddress, may_be_private: bool, seconds: float) -> Page | Redirect:
    body, left_out = bytearray(), ""
    async with asyncio.timeout(seconds) as limit:
        pool = await pool_for(address, may_be_private=may_be_private)
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        headers = [("host", address.place), *_HEADERS]
        extensions = {
            "timeout": {"connect": CONNECT_TIMEOUT_S, "read": seconds, "write": seconds, "pool": CONNECT_TIMEOUT_S}
        }
        async with pool, pool.stream("GET", url, headers=headers, extensions=extensions) as response:
            said = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if response.status in (301, 302, 303, 307, 308) and "location" in said:
                return Redirect(said["location"])
            if response.status >= 400:
                raise ToolError(f"`{printable(str(address))}` answers with HTTP {_status(response.status)}")
            try:
                async for piece in _decompress(response.aiter_stream(), said.get("content-encoding", "")):
                    body += piece
                    if len(body) > MAX_PAGE_BYTES:
                        left_out = f"only its first {MAX_PAGE_BYTES / 1e6:.0f} MB were looked at"
                        break
            except asyncio.CancelledError:
                if not body or not limit.expired():
                    raise
                left_out = f"it did not arrive completely within {FETCH_TIMEOUT_S:.0f} s"
            except (httpcore2.NetworkError, httpcore2.ProtocolError):
                if not body:
                    raise
                left_out = "it broke off"
    media_type, charset = _kind(said)
    return Page(address, media_type, charset, bytes(body[:MAX_PAGE_BYTES]), left_out)


async def _decompress(stream: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Yield the decompressed bytes, never many more at once than arrived."""
    match encoding.strip().lower():
        case "" | "identity":
            async for piece in stream:
                yield piece
        case "gzip" | "x-gzip" | "deflate":
            unpacker = zlib.decompressobj(wbits=47)
            async for piece in stream:
                try:
                    yield unpacker.decompress(piece, MAX_PAGE_BYTES + 1)
                except zlib.error as error:
                    raise ToolError("the page is compressed in a way that cannot be read: try curl in bash") from error
        case other:
            raise ToolError(
                f"the page is compressed as {printable(other[:40])}, which was not asked for: try curl in bash"
            )


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _kind(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return media type and charset declared by a server."""
    media_type, *parameters = headers.get("content-type", "").split(";")
    named = dict(part.strip().lower().partition("=")[::2] for part in parameters)
    return media_type.strip().lower(), named.get("charset", "").strip("\"' ")
