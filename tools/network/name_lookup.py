"""Host name lookup in threads that do not block exit, with a check of the results."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any

from ebbtide.tools.network.addresses import IpAddress, is_local_name, is_public, literal


class PrivateAddress(Exception):
    """A host with a private address."""


class NameNotKnown(Exception):
    """A host without an address."""


async def public_addresses(host: str, port: int) -> list[IpAddress]:
    """Return the addresses of a host. Raises `PrivateAddress` if any of them is not public, and `NameNotKnown` if there
    are none."""
    if is_local_name(host):
        raise PrivateAddress(f"`{host}` is a name for this machine or on a private network")
    addresses = await addresses_of(host, port)
    for address in addresses:
        if not is_public(address):
            raise PrivateAddress(where_private(host, address))
    return addresses


async def addresses_of(host: str, port: int) -> list[IpAddress]:
    """Return all addresses of a host. Raises `NameNotKnown`."""
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NameNotKnown(f"the name is not known: {error.strerror or error}") from error
    addresses = [address for *_, place in found if (address := literal(str(place[0]))) is not None]
    return list(dict.fromkeys(addresses))


def where_private(host: str, address: IpAddress) -> str:
    """Return a message that this address of a host is private."""
    what = "" if str(address) == host else f" is {address}, which"
    return f"`{host}`{what} is on a private network"


def use_lookup_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop look up names in separate threads. Its default threads delay exit, by half a minute if no name
    server answers, and a few hanging lookups would block everything else that uses them."""

    async def getaddrinfo(host: str | bytes | None, port: str | int | None, **wanted: int) -> list[Any]:
        found: asyncio.Future[list[Any]] = loop.create_future()

        def tell(addresses: list[Any], problem: OSError | None) -> None:
            if found.done():  # no longer awaited
                return
            if problem is None:
                found.set_result(addresses)
            else:
                found.set_exception(problem)

        def work() -> None:
            addresses, problem = list[Any](), None
            try:
                addresses = socket.getaddrinfo(host, port, **wanted)
            except OSError as error:
                problem = error
            except UnicodeError as error:
                problem = socket.gaierror(socket.EAI_NONAME, f"{host!r} is not the name of a host: {error}")
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(tell, addresses, problem)

        Thread(target=work, name="name lookup", daemon=True).start()
        return await found

    setattr(loop, "getaddrinfo", getaddrinfo)  # noqa: B010  # type checkers do not allow replacing a method
