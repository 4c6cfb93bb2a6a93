"""Names of hosts looked up in threads that nobody has to wait for, and what they stand for judged."""

import asyncio
import socket
from contextlib import suppress
from threading import Thread
from typing import Any

from ebbtide.tools.network.addresses import IpAddress, is_local_name, is_public, literal


class PrivateAddress(Exception):
    """A host that stands for something on a private network."""


class NameNotKnown(Exception):
    """A host without an address."""


async def public_addresses(host: str, port: int) -> list[IpAddress]:
    """The addresses of a host, all of them public. Raises `PrivateAddress` when one of them is not, and `NameNotKnown`
    when it has none."""
    if is_local_name(host):
        raise PrivateAddress(f"`{host}` is a name for this machine or on a private network")
    addresses = await addresses_of(host, port)
    for address in addresses:
        if not is_public(address):
            raise PrivateAddress(where_private(host, address))
    return addresses


async def addresses_of(host: str, port: int) -> list[IpAddress]:
    """All that a host stands for. Raises `NameNotKnown`."""
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NameNotKnown(f"the name is not known: {error.strerror or error}") from error
    addresses = [address for *_, place in found if (address := literal(str(place[0]))) is not None]
    return list(dict.fromkeys(addresses))


def where_private(host: str, address: IpAddress) -> str:
    """Says that this address of a host is not on the public network."""
    what = "" if str(address) == host else f" is {address}, which"
    return f"`{host}`{what} is on a private network"


def use_lookup_threads(loop: asyncio.AbstractEventLoop) -> None:
    """From now on the loop looks up names in threads of their own. Its usual ones are waited for when the program ends,
    half a minute where no name server answers, and a few lookups that hang leave none of them for anything else."""

    async def getaddrinfo(host: str | bytes | None, port: str | int | None, **wanted: int) -> list[Any]:
        found: asyncio.Future[list[Any]] = loop.create_future()

        def tell(addresses: list[Any], problem: OSError | None) -> None:
            if found.done():  # nobody waits any more
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

    setattr(loop, "getaddrinfo", getaddrinfo)  # noqa: B010  # a method, which types let nobody replace
