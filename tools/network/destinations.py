"""Hosts and ports that commands connect to. They are parsed once, so that the connection goes to exactly the
destination that was checked. No I/O."""

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.network.addresses import ends_in_number, is_private, parse_address

DEFAULT_PORTS = (80, 443)
_MAX_NAME_CHARS = 253
_HOST = regex(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


@dataclass(frozen=True, slots=True)
class NetworkDestination:
    host: str
    """In lower-case ASCII, without brackets or a trailing dot."""
    port: int

    @property
    def authority(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_private(self) -> bool:
        """Whether the host is recognisably private. The host name is not resolved."""
        return is_private(self.host)

    def __str__(self) -> str:
        """Format the destination as in permission rules. The default port is omitted."""
        return self._host if self.port in DEFAULT_PORTS else self.authority


def parse_destination(authority: str, port: int | None = None) -> NetworkDestination:
    """Parse `HOST:PORT`. `port`: the default port. Hosts that some programs would read as a numeric address are
    rejected. Raises `ValueError`."""
    host, separator, port_text = authority.rpartition(":")
    if not separator or authority.endswith("]"):
        host, port_text = authority, ""
    if port_text:
        if not (port_text.isascii() and port_text.isdecimal() and len(port_text) <= 5):
            raise ValueError("the port is not a number")
        port = int(port_text)
    if port is None or not 0 < port < 65536:
        raise ValueError("it has no port")
    return NetworkDestination(_parse_host(host), port)


def _parse_host(host_text: str) -> str:
    if host_text.startswith("[") and host_text.endswith("]"):
        address = parse_address(host_text[1:-1])
        if address is None or address.version != 6 or "%" in host_text:
            raise ValueError("it is not an address")
        return str(address)
    try:
        name = host_text if host_text.isascii() else host_text.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError("it is not a host name") from error
    name = name.lower().removesuffix(".")
    if (address := parse_address(name)) is not None and address.version == 4 and "%" not in name:
        return str(address)
    if len(name) > _MAX_NAME_CHARS or not _HOST.fullmatch(name) or ends_in_number(name):
        raise ValueError("it is not a host name")
    return name
