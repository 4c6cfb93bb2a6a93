"""Distinguishes public from private hosts and addresses, without resolving host names."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from ebbtide.tools.lazy import regex

IpAddress: TypeAlias = IPv4Address | IPv6Address

_NUMERIC_LABEL = regex(r"(?:0x[0-9a-f]*|[0-9]+)\Z")

_NON_PUBLIC_NETWORKS = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "168.63.129.16/32", "2001::/23", "fec0::/10",
            "64:ff9b:1::/48", "3fff::/20",
        ),
    )
)  # fmt: skip
"""More networks that are not public, because the standard library does not know all of them. One contains Azure's
metadata service."""
_LOCAL_SUFFIXES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "svc",
    "home.arpa",
)
"""Suffixes reserved for names outside the public DNS."""
_METADATA_HOST = "metadata.goog"
_NAT64, _SIX_TO_FOUR = IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16")


def is_private(host: str) -> bool:
    """Whether a host's name or address alone shows that it is not public. Names are not resolved."""
    address = parse_address(host)
    return is_local_name(host) or (address is not None and not is_public(address))


def is_local_name(host: str) -> bool:
    """Whether a name refers to this machine or a private network. Only the name is checked, because a proxy may resolve
    names that are unknown here. Names without a dot are never public."""
    is_dotless = "." not in host and ":" not in host
    return is_dotless or host == _METADATA_HOST or host.endswith(tuple(f".{suffix}" for suffix in _LOCAL_SUFFIXES))


def ends_in_number(host: str) -> bool:
    """Whether some programs would read the name as an address in an unusual notation, such as `127.1`."""
    return bool(_NUMERIC_LABEL.match(host.rpartition(".")[2]))


def parse_address(host: str) -> IpAddress | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def is_link_local(address: IpAddress) -> bool:
    """Whether an address is link-local, such as the addresses of cloud metadata services."""
    ipv4_address = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (ipv4_address or address).is_link_local


def is_public(address: IpAddress) -> bool:
    """Whether an address is public. An IPv4 address embedded in it must also be public."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address in _SIX_TO_FOUR:
            return is_public(IPv4Address(int(address) >> 80 & 0xFFFFFFFF))
        if int(address) >> 32 == 0:
            return False
    is_special = any(address.version == network.version and address in network for network in _NON_PUBLIC_NETWORKS)
    return address.is_global and not address.is_multicast and not address.is_reserved and not is_special
