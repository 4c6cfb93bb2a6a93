"""Hosts and ports that commands connect to, parsed once so that the check and the connection agree. Pure."""

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.network.addresses import ends_in_number, is_private, literal

USUAL = (80, 443)
_MAX_NAME_CHARS = 253
_HOST = regex(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


@dataclass(frozen=True, slots=True)
class NetworkPlace:
    host: str
    """Lower-case ASCII, without brackets and without a trailing dot."""
    port: int

    @property
    def authority(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def is_private(self) -> bool:
        """Whether it is not public, as far as that is known without a lookup."""
        return is_private(self.host)

    def __str__(self) -> str:
        """The form in permission rules: without a default port."""
        return self._host if self.port in USUAL else self.authority


def place_of(authority: str, port: int | None = None) -> NetworkPlace:
    """Parse `HOST:PORT`. `port`: the default. Numbers that some programs would read as an address are rejected. Raises
    `ValueError`."""
    host, separator, written = authority.rpartition(":")
    if not separator or authority.endswith("]"):
        host, written = authority, ""
    if written:
        if not (written.isascii() and written.isdecimal() and len(written) <= 5):
            raise ValueError("the port is not a number")
        port = int(written)
    if port is None or not 0 < port < 65536:
        raise ValueError("it has no port")
    return NetworkPlace(_host_of(host), port)


def _host_of(written: str) -> str:
    if written.startswith("[") and written.endswith("]"):
        address = literal(written[1:-1])
        if address is None or address.version != 6 or "%" in written:
            raise ValueError("it is not an address")
        return str(address)
    try:
        name = written if written.isascii() else written.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError("it is not a host name") from error
    name = name.lower().removesuffix(".")
    if (address := literal(name)) is not None and address.version == 4 and "%" not in name:
        return str(address)
    if len(name) > _MAX_NAME_CHARS or not _HOST.fullmatch(name) or ends_in_number(name):
        raise ValueError("it is not a host name")
    return name
