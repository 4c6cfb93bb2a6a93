"""Outgoing connections for commands: to a checked address, or through the proxy configured in the environment."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from ebbtide.tools.network.addresses import IpAddress
from ebbtide.tools.network.destinations import NetworkDestination
from ebbtide.tools.network.name_lookup import (
    PrivateAddressError,
    UnknownHostError,
    install_lookup_threads,
    resolve_public_addresses,
)
from ebbtide.tools.network.proxy import ForbiddenAddressError, UnreachableError, UpstreamConnection

CONNECT_TIMEOUT_S = 15.0
MAX_TRIED_ADDRESSES = 4
"""Maximum number of a host's addresses that are tried, one after the other."""
_READ_BUFFER_BYTES = 65_536

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[IpAddress]]]
"""Returns the permitted addresses of a host. Raises `UnreachableError`."""


def is_permitted_private(destination: NetworkDestination, private_hosts: Sequence[str]) -> bool:
    """Whether the user has permitted the host, with or without its port, even if it is private."""
    return bool(
        {destination.host, destination.authority, destination.authority.rpartition(":")[0]} & set(private_hosts)
    )


async def resolve_public(host: str, port: int) -> Sequence[IpAddress]:
    """Return the addresses of a host if they are all public. Raises `UnreachableError`."""
    install_lookup_threads(asyncio.get_running_loop())
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await resolve_public_addresses(host, port)
    except PrivateAddressError as error:
        hint = "the user can allow hosts in `web.private`"
        raise ForbiddenAddressError(f"{error}; {hint}") from error
    except UnknownHostError as error:
        raise UnreachableError(f"`{host}` cannot be reached: {error}") from error
    except TimeoutError as error:
        raise UnreachableError(
            f"`{host}` cannot be reached: its name was not found in {CONNECT_TIMEOUT_S:.0f} s"
        ) from error


async def connect(
    destination: NetworkDestination,
    is_tunnel: bool,
    resolve: Resolve = resolve_public,
    private_hosts: Sequence[str] = (),
) -> UpstreamConnection:
    """Connect to one of the host's current addresses, after checking each of them. If the environment sets a proxy,
    host names that cannot be resolved locally are left to the proxy. `private_hosts`: private hosts that the user
    permits. Raises `UnreachableError`."""
    if is_permitted_private(destination, private_hosts):
        return await _open_stream(destination.host, destination.port, str(destination))
    proxy = proxy_for("https" if is_tunnel else "http", destination.authority)
    if not proxy:
        return await _connect_directly(destination, await resolve(destination.host, destination.port))
    try:
        await resolve(destination.host, destination.port)
    except ForbiddenAddressError:
        raise
    except UnreachableError:  # the proxy may know the name, and makes its own checks
        pass
    return await _connect_through_proxy(proxy, destination, is_tunnel)


async def _connect_directly(destination: NetworkDestination, addresses: Sequence[IpAddress]) -> UpstreamConnection:
    problem = UnreachableError(f"`{destination}` cannot be reached: it has no address")
    for address in addresses[:MAX_TRIED_ADDRESSES]:
        try:
            return await _open_stream(str(address), destination.port, str(destination))
        except UnreachableError as error:
            problem = error
    raise problem


async def _open_stream(host: str, port: int, label: str, *, is_tls: bool = False) -> UpstreamConnection:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, limit=_READ_BUFFER_BYTES, ssl=is_tls or None)
    except TimeoutError as error:
        raise UnreachableError(f"`{label}` did not answer in {CONNECT_TIMEOUT_S:.0f} s") from error
    except OSError as error:
        raise UnreachableError(f"`{label}` cannot be reached: {error.strerror or error}") from error
    return UpstreamConnection(reader, writer)


def proxy_for(scheme: str, authority: str) -> str:
    """Return the proxy that the environment sets for a host and port, if any."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415  # deferred: it loads many modules

    if proxy_bypass(authority):
        return ""
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all") or ""


async def _connect_through_proxy(proxy: str, destination: NetworkDestination, is_tunnel: bool) -> UpstreamConnection:
    try:
        split_proxy = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port = split_proxy.port or (443 if split_proxy.scheme == "https" else 80)
    except ValueError as error:
        raise UnreachableError("the environment sets a proxy with an invalid address: tell the user") from error
    if split_proxy.scheme not in ("http", "https") or not split_proxy.hostname:
        raise UnreachableError(
            "commands in the sandbox can use only an HTTP proxy, not the one that the environment sets"
        )
    connection = await _open_stream(split_proxy.hostname, port, "the proxy", is_tls=split_proxy.scheme == "https")
    credentials = f"{unquote(split_proxy.username or '')}:{unquote(split_proxy.password or '')}"
    authorization_header = (
        f"Proxy-Authorization: Basic {base64.b64encode(credentials.encode()).decode()}\r\n"
        if split_proxy.username
        else ""
    )
    if not is_tunnel and not authorization_header:
        return UpstreamConnection(connection.reader, connection.writer, is_proxy=True)
    head = f"CONNECT {destination.authority} HTTP/1.1\r\nHost: {destination.authority}\r\n{authorization_header}\r\n"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection.writer.write(head.encode())
            response = await connection.reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        connection.writer.close()
        raise UnreachableError("the environment's proxy did not answer") from error
    status = response.split(b"\r\n", 1)[0].decode("latin-1")[:100]
    if status.split(" ")[1:2] != ["200"]:
        connection.writer.close()
        raise UnreachableError(f"the environment's proxy refused `{destination}`: {status}")
    return connection
