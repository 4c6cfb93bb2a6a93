"""Fetches one web page within limits on size, time and redirects."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from http import HTTPStatus

import httpcore2

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.network.addresses import is_private
from ebbtide.tools.network.name_lookup import PrivateAddressError
from ebbtide.tools.outputs.plain_text import printable_name
from ebbtide.tools.web.addresses import PERMISSION_HINT, WebAddress, is_allowed, redirect_target
from ebbtide.tools.web.connection import create_connection_pool

MAX_PAGE_BYTES = 5_000_000
"""Maximum size of a page in bytes. Applies both before and after decompression."""
FETCH_TIMEOUT_S = 60.0
"""Time limit for a page, in seconds. Whatever has arrived by then is shown."""
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
    """The charset that the server declares; empty if none."""
    content: bytes
    incomplete_reason: str = ""
    """Why the content is incomplete; empty if it is complete."""


@dataclass(frozen=True, slots=True)
class Redirect:
    location: str


async def fetch_page(address: WebAddress, allowed_private_hosts: Sequence[str] = ()) -> Page:
    """Fetch a page. `allowed_private_hosts`: permitted hosts on private networks. Redirects to another host or port are
    not followed, because the permission covers only the original host and port. Raises `ToolError`."""
    start_time = asyncio.get_running_loop().time()
    for _ in range(MAX_REDIRECTS + 1):
        remaining_seconds = FETCH_TIMEOUT_S - (asyncio.get_running_loop().time() - start_time)
        try:
            result = await _fetch_once(address, is_allowed(address, allowed_private_hosts), remaining_seconds)
        except PrivateAddressError as error:
            raise ToolError(f"not fetched: {error}; {PERMISSION_HINT}") from error
        except TimeoutError as error:
            raise ToolError(
                f"`{address.host_and_port}` did not answer within {FETCH_TIMEOUT_S:.0f} s: try again later"
            ) from error
        except (
            httpcore2.NetworkError,
            httpcore2.TimeoutException,
            httpcore2.ProtocolError,
            httpcore2.ProxyError,
        ) as error:
            reason = printable_name(str(error) or type(error).__name__)[:300].rstrip(".")
            raise ToolError(f"cannot reach `{address.host_and_port}`: {reason}. Check the address") from error
        if isinstance(result, Page):
            return result
        target = redirect_target(address, result.location)
        if target.host_and_port != address.host_and_port:
            if is_private(target.host) and not is_allowed(target, allowed_private_hosts):
                raise ToolError(f"not fetched: it redirects to `{target.host_and_port}`, which is on a private network")
            changed_part = "host" if target.host != address.host else "port"
            raise ToolError(
                f"it redirects to another {changed_part}: call web_fetch with `{printable_name(str(target))}`"
            )
        address = target
    raise ToolError(
        f"`{address.host_and_port}` redirects more than {MAX_REDIRECTS} times: give the address that it leads to"
    )


async def _fetch_once(address: WebAddress, may_be_private: bool, seconds: float) -> Page | Redirect:
    body = bytearray()
    incomplete_reason = ""
    async with asyncio.timeout(seconds) as limit:
        pool = await create_connection_pool(address, may_be_private=may_be_private)
        url = httpcore2.URL(scheme=address.scheme, host=address.host, port=address.port, target=address.target)
        headers = [("host", address.host_and_port), *_HEADERS]
        extensions = {
            "timeout": {"connect": CONNECT_TIMEOUT_S, "read": seconds, "write": seconds, "pool": CONNECT_TIMEOUT_S}
        }
        async with pool, pool.stream("GET", url, headers=headers, extensions=extensions) as response:
            header_fields = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
            }
            if response.status in (301, 302, 303, 307, 308) and "location" in header_fields:
                return Redirect(header_fields["location"])
            if response.status >= 400:
                raise ToolError(
                    f"`{printable_name(str(address))}` answered with HTTP {_describe_status(response.status)}"
                )
            try:
                async for chunk in _decompress(response.aiter_stream(), header_fields.get("content-encoding", "")):
                    body += chunk
                    if len(body) > MAX_PAGE_BYTES:
                        incomplete_reason = f"only its first {MAX_PAGE_BYTES / 1e6:.0f} MB were read"
                        break
            except asyncio.CancelledError:
                if not body or not limit.expired():
                    raise
                incomplete_reason = f"it did not arrive completely within {FETCH_TIMEOUT_S:.0f} s"
            except (httpcore2.NetworkError, httpcore2.ProtocolError):
                if not body:
                    raise
                incomplete_reason = "the transfer was interrupted"
    media_type, charset = _declared_type(header_fields)
    return Page(address, media_type, charset, bytes(body[:MAX_PAGE_BYTES]), incomplete_reason)


async def _decompress(stream: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """Decompress a stream chunk by chunk. The size of a chunk is limited, because compressed data may expand to any
    size."""
    match encoding.strip().lower():
        case "" | "identity":
            async for chunk in stream:
                yield chunk
        case "gzip" | "x-gzip" | "deflate":
            decompressor = zlib.decompressobj(wbits=47)
            async for chunk in stream:
                try:
                    yield decompressor.decompress(chunk, MAX_PAGE_BYTES + 1)
                except zlib.error as error:
                    raise ToolError("the page is compressed in a way that cannot be read: try curl in bash") from error
        case coding:
            raise ToolError(
                f"the page is compressed as {printable_name(coding[:40])}, which was not requested: try curl in bash"
            )


def _describe_status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _declared_type(headers: Mapping[str, str]) -> tuple[str, str]:
    """Parse the media type and charset that the server declares; either may be empty."""
    media_type, *parameters = headers.get("content-type", "").split(";")
    parameter_values = dict(parameter.strip().lower().partition("=")[::2] for parameter in parameters)
    return media_type.strip().lower(), parameter_values.get("charset", "").strip("\"' ")
