"""Which addresses of the web may be reached, told of what is written and of what a name stands for. Pure."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from tools.base import ToolError
from tools.lazy import dataclass, regex
from tools.outputs.plain_text import printable

IpAddress: TypeAlias = IPv4Address | IPv6Address

LONGEST = 4000
"""Characters of an address."""

_PORTS = {"http": 80, "https": 443}
_REFUSED = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "2001::/23", "fec0::/10", "64:ff9b:1::/48"))
)
"""Of no use on the web, though not everything knows it."""
_NAT64, _SIX_TO_FOUR = IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16")
_UNSAFE = regex(r"[\x00-\x20\x7f-\x9f\\]")
_HOST = regex(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_SAFE = "%/:=&?~#+!$,;'@()*[]|"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An address of HTTP, taken apart once: what is judged is what is connected to."""

    scheme: str
    host: str
    """In small letters and ASCII, without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def place(self) -> str:
        """The host, and the port where it is not the usual one: what permission rules are about."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}{self.target}"


def address_of(written: str) -> WebAddress:
    """The address that is meant. Raises `ToolError`."""
    text = written.strip()
    if "://" not in text and not text.startswith("//"):
        text = f"https://{text}"
    if len(text) > LONGEST:
        raise ToolError(f"the address has more than {LONGEST:,} characters: check it")
    shown = printable(text[:200])
    if _UNSAFE.search(text):
        raise ToolError(f"`{shown}` holds a blank, a backslash or a control character: write it as %20 or leave it out")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        name = host.rstrip(".") if ":" in host else host.rstrip(".").encode("idna").decode().lower()
    except (ValueError, UnicodeError) as error:
        raise ToolError(f"`{shown}` is not an address: {error}") from error
    if parts.scheme not in _PORTS:
        raise ToolError(f"`{shown}` is not an address of http or https: read shows files, bash fetches the rest")
    if "@" in parts.netloc:
        raise ToolError("the address holds a name or password: leave it out")
    if literal(name) is None and not _HOST.fullmatch(name):
        raise ToolError(f"`{shown}` names no host that the web can have: check it")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return WebAddress(parts.scheme, name, _PORTS[parts.scheme] if port is None else port, target)


def behind(address: WebAddress, location: str) -> WebAddress:
    """Where a redirect leads. Raises `ToolError`."""
    return address_of(urljoin(str(address), location.strip()))


def is_allowed(address: WebAddress, private: Sequence[str]) -> bool:
    """Whether the user has named the host, or the host and its port, as one on a private network to be reached."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return bool({address.host, host, f"{host}:{address.port}"} & set(private))


def is_private(host: str) -> bool:
    """Whether a host is none of the public network, as far as that can be told without looking its name up."""
    address = literal(host)
    return is_local_name(host) or (address is not None and not is_public(address))


def is_local_name(host: str) -> bool:
    """Whether a name stands for this machine, whatever it resolves to."""
    return host == "localhost" or host.endswith((".localhost", ".localdomain"))


def literal(host: str) -> IpAddress | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def is_public(address: IpAddress) -> bool:
    """Whether an address belongs to the public network, those that stand in another one included."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address in _SIX_TO_FOUR:
            return is_public(IPv4Address(int(address) >> 80 & 0xFFFFFFFF))
        if int(address) >> 32 == 0:
            return False
    refused = any(address.version == network.version and address in network for network in _REFUSED)
    return address.is_global and not address.is_multicast and not address.is_reserved and not refused
