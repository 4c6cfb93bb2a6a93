"""Decides which web addresses may be reached, from the address and what its name resolves to. Pure."""

from collections.abc import Sequence
from urllib.parse import quote, urljoin, urlsplit

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.network.addresses import ends_in_number, is_private, literal
from ebbtide.tools.outputs.plain_text import printable

MAX_ADDRESS_CHARS = 4000
"""Maximum number of characters in an address."""

WHAT_COULD_BE = "the user can allow hosts in `web.private`"

_PORTS = {"http": 80, "https": 443}
_FIRST_FREE = 1024
"""Lower ports belong to other services: mail, shells, files."""
_UNSAFE = regex(r"[\x00-\x20\x7f-\x9f\\]")
_HOST = regex(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_SAFE = "%/:=&?~#+!$,;'@()*[]|"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An HTTP address, parsed once so that the check and the connection agree."""

    scheme: str
    host: str
    """Lower-case ASCII, without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def place(self) -> str:
        """The host, with the port unless it is the default: the subject of permission rules."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}{self.target}"


def address_of(written: str) -> WebAddress:
    """Parse an address. Raises `ToolError`."""
    text = written.strip()
    if "://" not in text and not text.startswith("//"):
        text = f"https://{text}"
    if len(text) > MAX_ADDRESS_CHARS:
        raise ToolError(f"the address has more than {MAX_ADDRESS_CHARS:,} characters: check it")
    shown = printable(text[:200])
    if _UNSAFE.search(text):
        raise ToolError(
            f"`{shown}` contains a blank, a backslash or a control character: write it as %20 or leave it out"
        )
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        name = host.rstrip(".") if ":" in host else host.rstrip(".").encode("idna").decode().lower()
    except (ValueError, UnicodeError) as error:
        raise ToolError(f"`{shown}` is not an address: {error}") from error
    if parts.scheme not in _PORTS:
        raise ToolError(f"`{shown}` is not an address of http or https: read shows files, bash fetches the rest")
    if "@" in parts.netloc:
        raise ToolError("the address contains a name or password: leave it out")
    if literal(name) is None and (not _HOST.fullmatch(name) or "[" in parts.netloc):
        raise ToolError(f"`{shown}` has no valid host: check it")
    target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return WebAddress(parts.scheme, name, _PORTS[parts.scheme] if port is None else port, target)


def behind(address: WebAddress, location: str) -> WebAddress:
    """Return the target of a redirect. Raises `ToolError`."""
    try:
        joined = urljoin(str(address), location.strip())
    except ValueError as error:
        raise ToolError(f"it redirects to `{printable(location[:200])}`, which is not an address: {error}") from error
    return address_of(joined)


def check_is_public(address: WebAddress, private: Sequence[str]) -> None:
    """Raise `ToolError` if the host's name is not public or the port is not a web port, unless permitted by the
    user."""
    if address.port < _FIRST_FREE and address.port not in _PORTS.values() and not is_allowed(address, private):
        raise ToolError(f"not fetched: port {address.port} is not a web port; {WHAT_COULD_BE}")
    if literal(address.host) is None and ends_in_number(address.host) and not is_allowed(address, private):
        raise ToolError(f"not fetched: `{address.host}` is an address in an unusual form; {WHAT_COULD_BE}")
    if is_private(address.host) and not is_allowed(address, private):
        raise ToolError(f"not fetched: `{address.host}` is this machine or on a private network; {WHAT_COULD_BE}")


def is_allowed(address: WebAddress, private: Sequence[str]) -> bool:
    """Whether the user has permitted the host, or the host and port, on a private network."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return bool({address.host, host, f"{host}:{address.port}"} & set(private))
