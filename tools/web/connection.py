"""Connections to the public internet. A host name is resolved once and every address is checked. The connection then
goes to a checked address, so that later DNS changes have no effect."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import httpcore2
import httpx2

from ebbtide.tools.base import ToolError
from ebbtide.tools.network.connection import proxy_for
from ebbtide.tools.network.name_lookup import UnknownHostError, install_lookup_threads, resolve_public_addresses
from ebbtide.tools.web.addresses import WebAddress

if TYPE_CHECKING:
    import ssl

MAX_TRIED_ADDRESSES = 4
"""Maximum number of a host's addresses to try."""


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Connects only to public addresses, even after redirects and when reconnecting."""

    def __init__(self) -> None:
        self._backend = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        problem: Exception = httpcore2.ConnectError(f"{host} has no address")
        try:
            addresses = await resolve_public_addresses(host, port)
        except UnknownHostError as error:
            raise httpcore2.ConnectError(str(error)) from error
        for address in addresses[:MAX_TRIED_ADDRESSES]:
            try:
                return await self._backend.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem


async def create_connection_pool(address: WebAddress, *, may_be_private: bool) -> httpcore2.AsyncConnectionPool:
    """Create a connection pool for the address, with the same trusted certificates as for providers. It uses the proxy
    that the environment sets for the address, if any. `may_be_private`: whether the user permits this host even if it
    is private. Raises `ToolError`, `PrivateAddressError`."""
    install_lookup_threads(asyncio.get_running_loop())
    context = await asyncio.to_thread(_create_tls_context, address)
    proxy = proxy_for(address.scheme, address.host_and_port)
    if not proxy:
        backend = None if may_be_private else GuardedBackend()
        return httpcore2.AsyncConnectionPool(ssl_context=context, network_backend=backend)
    if not may_be_private:
        with suppress(UnknownHostError):  # only the proxy knows the name; it does its own checks
            await resolve_public_addresses(address.host, address.port)
    return _create_proxy_pool(proxy, context)


def _create_tls_context(address: WebAddress) -> "ssl.SSLContext | None":
    try:
        return httpx2.create_ssl_context() if address.scheme == "https" else None
    except OSError as error:
        name = next((name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)), "this system")
        raise ToolError(f"the certificates of `{name}` cannot be read: tell the user") from error


def _create_proxy_pool(proxy: str, context: "ssl.SSLContext | None") -> httpcore2.AsyncConnectionPool:
    try:
        split_proxy = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        port = split_proxy.port or (
            1080 if split_proxy.scheme.startswith("socks") else 443 if split_proxy.scheme == "https" else 80
        )
        url = httpcore2.URL(scheme=split_proxy.scheme, host=split_proxy.hostname or "", port=port, target="/")
        auth = (unquote(split_proxy.username), unquote(split_proxy.password or "")) if split_proxy.username else None
        if not split_proxy.hostname or split_proxy.scheme not in ("http", "https", "socks5", "socks5h"):
            raise ValueError(split_proxy.scheme)
    except ValueError as error:
        raise ToolError("the environment sets a proxy with an invalid address: tell the user") from error
    if split_proxy.scheme.startswith("socks"):
        return httpcore2.AsyncSOCKSProxy(proxy_url=url, proxy_auth=auth, ssl_context=context)
    return httpcore2.AsyncHTTPProxy(proxy_url=url, proxy_auth=auth, ssl_context=context)
