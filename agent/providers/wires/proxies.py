"""The proxies and certificates set in the environment, and errors for invalid ones. Passwords are never displayed."""

import os
import ssl
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from ebbtide.agent.errors import RouteFailed
from ebbtide.tools.lazy import dataclass

PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class ProxySetting:
    """A proxy that an environment variable configures."""

    variable: str
    address: str

    @property
    def has_valid_address(self) -> bool:
        try:
            split_url = urlsplit(self.address if "://" in self.address else f"http://{self.address}")
            _ = split_url.port
        except ValueError:
            return False
        return split_url.scheme in PROXY_SCHEMES and bool(split_url.hostname)

    @property
    def description(self) -> str:
        """Description of the proxy for display, without user name or password."""
        scheme, _, user_and_address = self.address.rpartition("://")
        address = user_and_address.rpartition("@")[2]
        return f"the proxy `{scheme}://{address}` (`{self.variable}`)" if scheme else f"the proxy `{address}`"


def find_proxy(url: str) -> ProxySetting | None:
    """Return the proxy used for requests to a URL; None if there is none."""
    split_url = urlsplit(url)
    if proxy_bypass(split_url.netloc.rpartition("@")[2]):
        return None
    return next((proxy for scheme in (split_url.scheme, "all") if (proxy := _configured_proxy(scheme))), None)


def check_proxy(url: str) -> None:
    """Check the proxy for a URL. Raises `RouteFailed` if it is not a valid address."""
    proxy = find_proxy(url)
    if proxy is not None and not proxy.has_valid_address:
        raise _address_error(proxy)


def client_error(error: Exception) -> RouteFailed:
    """Return the error for a client that cannot be created because of the environment's proxies or certificates."""
    if isinstance(error, OSError):  # `ssl.SSLError` is an `OSError` as well
        return _certificate_error(error)
    proxies = (proxy for scheme in ("http", "https", "all") if (proxy := _configured_proxy(scheme)))
    invalid_proxy = next((proxy for proxy in proxies if not proxy.has_valid_address), None)
    if invalid_proxy is not None:
        return _address_error(invalid_proxy)
    return RouteFailed("no connection is possible with the proxy variables in the environment. Check them.")


def _configured_proxy(scheme: str) -> ProxySetting | None:
    """Return the proxy that the environment configures for a URL scheme. A variable with a lower-case name takes
    precedence."""
    variables = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    return next((ProxySetting(name, os.environ[name]) for name in variables if os.environ.get(name)), None)


def _address_error(proxy: ProxySetting) -> RouteFailed:
    return RouteFailed(
        f"`{proxy.variable}` does not contain a valid proxy address. Write `http://HOST:PORT` or `socks5://HOST:PORT`, "
        "or unset the variable.",
        cause="proxy",
    )


def _certificate_error(error: OSError) -> RouteFailed:
    reason = "it contains none" if isinstance(error, ssl.SSLError) else (error.strerror or type(error).__name__).lower()
    variable = next((variable for variable in CERTIFICATE_VARIABLES if os.environ.get(variable)), None)
    if variable is None:
        return RouteFailed(f"the certificates of this system cannot be read: {reason}.", cause="certificate")
    return RouteFailed(
        f"the certificates in `{os.environ[variable]}`, which `{variable}` names, cannot be read: {reason}. "
        "Name a file of certificates (PEM), or unset it.",
        cause="certificate",
    )
