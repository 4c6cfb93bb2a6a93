"""Decides, from a web address alone, whether it may be reached. No I/O. The IP addresses of the host are checked by
`ebbtide.tools.web.connection`."""

from collections.abc import Sequence
from urllib.parse import quote, urljoin, urlsplit

from ebbtide.tools.base import ToolError
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.network.addresses import ends_in_number, is_private, parse_address
from ebbtide.tools.outputs.plain_text import printable_name

MAX_ADDRESS_CHARS = 4000
"""Maximum number of characters in an address."""

PERMISSION_HINT = "the user can allow hosts in `web.private`"

_PORTS = {"http": 80, "https": 443}
_MIN_USER_PORT = 1024
"""Lowest permitted port besides 80 and 443. Lower ports belong to other services, such as mail and SSH."""
_INVALID_CHARACTER = regex(r"[\x00-\x20\x7f-\x9f\\]")
_HOST = regex(r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_UNQUOTED_CHARACTERS = "%/:=&?~#+!$,;'@()*[]|"


@dataclass(frozen=True, slots=True)
class WebAddress:
    """An HTTP address, parsed once so that the check and the connection agree."""

    scheme: str
    host: str
    """The host in lower-case ASCII, without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def host_and_port(self) -> str:
        """The host, followed by the port unless it is the default. Permission rules match against this."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_and_port}{self.target}"


def parse_web_address(address_text: str) -> WebAddress:
    """Parse an address. Raises `ToolError`."""
    text = address_text.strip()
    if "://" not in text and not text.startswith("//"):
        text = f"https://{text}"
    if len(text) > MAX_ADDRESS_CHARS:
        raise ToolError(f"the address has more than {MAX_ADDRESS_CHARS:,} characters: check it")
    label = printable_name(text[:200])
    if _INVALID_CHARACTER.search(text):
        raise ToolError(f"`{label}` contains a space, a backslash or a control character: write it as %20 or remove it")
    try:
        split_url = urlsplit(text)
        host, port = split_url.hostname or "", split_url.port
        host_name = host.rstrip(".") if ":" in host else host.rstrip(".").encode("idna").decode().lower()
    except (ValueError, UnicodeError) as error:
        raise ToolError(f"`{label}` is not an address: {error}") from error
    if split_url.scheme not in _PORTS:
        raise ToolError(f"`{label}` is not an HTTP or HTTPS address: use read for files, and bash for other schemes")
    if "@" in split_url.netloc:
        raise ToolError("the address contains a name or password: remove it")
    if parse_address(host_name) is None and (not _HOST.fullmatch(host_name) or "[" in split_url.netloc):
        raise ToolError(f"`{label}` has no valid host: check it")
    target = quote(split_url.path or "/", safe=_UNQUOTED_CHARACTERS) + (
        f"?{quote(split_url.query, safe=_UNQUOTED_CHARACTERS)}" if split_url.query else ""
    )
    return WebAddress(split_url.scheme, host_name, _PORTS[split_url.scheme] if port is None else port, target)


def redirect_target(address: WebAddress, location: str) -> WebAddress:
    """Resolve the target of a redirect. Raises `ToolError`."""
    try:
        target = urljoin(str(address), location.strip())
    except ValueError as error:
        raise ToolError(
            f"it redirects to `{printable_name(location[:200])}`, which is not an address: {error}"
        ) from error
    return parse_web_address(target)


def require_public(address: WebAddress, allowed_private_hosts: Sequence[str]) -> None:
    """Check that the host name is public and the port is a web port, unless the user has permitted them. Raises
    `ToolError`."""
    if (
        address.port < _MIN_USER_PORT
        and address.port not in _PORTS.values()
        and not is_allowed(address, allowed_private_hosts)
    ):
        raise ToolError(f"not fetched: port {address.port} is not a web port; {PERMISSION_HINT}")
    if (
        parse_address(address.host) is None
        and ends_in_number(address.host)
        and not is_allowed(address, allowed_private_hosts)
    ):
        raise ToolError(f"not fetched: `{address.host}` is an address in an unusual form; {PERMISSION_HINT}")
    if is_private(address.host) and not is_allowed(address, allowed_private_hosts):
        raise ToolError(f"not fetched: `{address.host}` is this machine or on a private network; {PERMISSION_HINT}")


def is_allowed(address: WebAddress, allowed_private_hosts: Sequence[str]) -> bool:
    """Whether the user has permitted this host on a private network, with or without its port."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return bool({address.host, host, f"{host}:{address.port}"} & set(allowed_private_hosts))
