"""Which hosts and addresses belong to the public network. Pure: nothing is looked up."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from ebbtide.tools.lazy import regex

IpAddress: TypeAlias = IPv4Address | IPv6Address

_NUMBER = regex(r"(?:0x[0-9a-f]*|[0-9]+)\Z")

_NON_PUBLIC_NETWORKS = tuple(
    map(
        ip_network,
        (
            "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "168.63.129.16/32", "2001::/23", "fec0::/10",
            "64:ff9b:1::/48", "3fff::/20",
        ),
    )
)  # fmt: skip
"""Of no use on the web, though not everything knows it. By one of them Azure tells machines their settings."""
_LOCAL = (
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
"""Ends of names that no public server of names knows, by agreement."""
_METADATA = "metadata.goog"
_NAT64, _SIX_TO_FOUR = IPv6Network("64:ff9b::/96"), IPv6Network("2002::/16")


def is_private(host: str) -> bool:
    """Whether a host is none of the public network, as far as that can be told without looking its name up."""
    address = literal(host)
    return is_local_name(host) or (address is not None and not is_public(address))


def is_local_name(host: str) -> bool:
    """Whether a name stands for something on this machine or a private network, whatever it resolves to: a proxy may
    know more names than we do. One without a dot is no public one."""
    is_short = "." not in host and ":" not in host
    return is_short or host == _METADATA or host.endswith(tuple(f".{end}" for end in _LOCAL))


def ends_in_number(host: str) -> bool:
    """Whether some programs take a name for an address in a form that is not the usual one, such as `127.1`."""
    return bool(_NUMBER.match(host.rpartition(".")[2]))


def literal(host: str) -> IpAddress | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def is_link_local(address: IpAddress) -> bool:
    """Whether an address is one of the link, such as those where clouds tell machines their keys."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_link_local


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
    refused = any(address.version == network.version and address in network for network in _NON_PUBLIC_NETWORKS)
    return address.is_global and not address.is_multicast and not address.is_reserved and not refused
