"""Resolves host names in threads that do not delay exit, and checks the resulting addresses."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any

from ebbtide.tools.network.addresses import IpAddress, is_local_name, is_public, parse_address


class PrivateAddressError(Exception):
    """Raised if a host has a private address."""


class UnknownHostError(Exception):
    """Raised if a host has no address."""


async def resolve_public_addresses(host: str, port: int) -> list[IpAddress]:
    """Return the addresses of a host. Raises `PrivateAddressError` if one of them is not public, and `UnknownHostError`
    if there are none."""
    if is_local_name(host):
        raise PrivateAddressError(f"`{host}` is a name for this machine or on a private network")
    addresses = await resolve_addresses(host, port)
    for address in addresses:
        if not is_public(address):
            raise PrivateAddressError(private_address_message(host, address))
    return addresses


async def resolve_addresses(host: str, port: int) -> list[IpAddress]:
    """Return all addresses of a host. Raises `UnknownHostError`."""
    try:
        loop = asyncio.get_running_loop()
        results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UnknownHostError(f"the name is not known: {error.strerror or error}") from error
    addresses = [
        address for *_, socket_address in results if (address := parse_address(str(socket_address[0]))) is not None
    ]
    return list(dict.fromkeys(addresses))


def private_address_message(host: str, address: IpAddress) -> str:
    """Build the error message for a host that has this private address."""
    address_text = "" if str(address) == host else f" is {address}, which"
    return f"`{host}`{address_text} is on a private network"


def install_lookup_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Make the event loop resolve host names in separate threads. Its default threads would delay exit by half a minute
    if no name server responds, and a few hanging lookups would block everything else that uses them."""

    async def getaddrinfo(host: str | bytes | None, port: str | int | None, **options: int) -> list[Any]:
        result: asyncio.Future[list[Any]] = loop.create_future()

        def report(addresses: list[Any], problem: OSError | None) -> None:
            if result.done():  # no longer awaited
                return
            if problem is None:
                result.set_result(addresses)
            else:
                result.set_exception(problem)

        def look_up() -> None:
            addresses, problem = list[Any](), None
            try:
                addresses = socket.getaddrinfo(host, port, **options)
            except OSError as error:
                problem = error
            except UnicodeError as error:
                problem = socket.gaierror(socket.EAI_NONAME, f"{host!r} is not the name of a host: {error}")
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(report, addresses, problem)

        Thread(target=look_up, name="name lookup", daemon=True).start()
        return await result

    setattr(loop, "getaddrinfo", getaddrinfo)  # noqa: B010  # type checkers do not allow replacing a method
