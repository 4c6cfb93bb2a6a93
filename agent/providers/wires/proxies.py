"""The proxies and certificates set in the environment, and what is wrong with them. Passwords are never shown."""

import os
import ssl
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from ebbtide.agent.errors import RouteFailed
from ebbtide.tools.lazy import dataclass

SCHEMES = ("http", "https", "socks5", "socks5h")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class ProxySetting:
    """A proxy set by an environment variable."""

    variable: str
    value: str

    @property
    def is_address(self) -> bool:
        try:
            parts = urlsplit(self.value if "://" in self.value else f"http://{self.value}")
            _ = parts.port
        except ValueError:
            return False
        return parts.scheme in SCHEMES and bool(parts.hostname)

    @property
    def description(self) -> str:
        """The proxy for display, without user name and password."""
        scheme, _, rest = self.value.rpartition("://")
        place = rest.rpartition("@")[2]
        return f"the proxy `{scheme}://{place}` (`{self.variable}`)" if scheme else f"the proxy `{place}`"


def proxy_of(url: str) -> ProxySetting | None:
    """The proxy used for requests to a URL, if any."""
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return next((proxy for scheme in (parts.scheme, "all") if (proxy := _set_for(scheme))), None)


def check_proxy(url: str) -> None:
    """Raises `RouteFailed` if the proxy for a URL is not a valid address."""
    proxy = proxy_of(url)
    if proxy is not None and not proxy.is_address:
        raise _no_address(proxy)


def no_client(error: Exception) -> RouteFailed:
    """The error for a client that cannot be created with the environment's settings."""
    if isinstance(error, OSError):  # TLS errors are OSErrors as well
        return _no_certificates(error)
    proxies = (proxy for scheme in ("http", "https", "all") if (proxy := _set_for(scheme)))
    wrong = next((proxy for proxy in proxies if not proxy.is_address), None)
    if wrong is not None:
        return _no_address(wrong)
    return RouteFailed("no connection is possible with the proxy variables in the environment. Check them.")


def _set_for(scheme: str) -> ProxySetting | None:
    """The proxy set for a scheme; a lower-case variable name takes precedence."""
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    return next((ProxySetting(name, os.environ[name]) for name in names if os.environ.get(name)), None)


def _no_address(proxy: ProxySetting) -> RouteFailed:
    return RouteFailed(
        f"`{proxy.variable}` is not a proxy address. Write `http://HOST:PORT` or `socks5://HOST:PORT`, "
        "or unset the variable.",
        cause="proxy",
    )


def _no_certificates(error: OSError) -> RouteFailed:
    reason = "it holds none" if isinstance(error, ssl.SSLError) else (error.strerror or type(error).__name__).lower()
    name = next((name for name in CERTIFICATES if os.environ.get(name)), None)
    if name is None:
        return RouteFailed(f"the certificates of this system cannot be read: {reason}.", cause="certificate")
    return RouteFailed(
        f"the certificates in `{os.environ[name]}`, which `{name}` names, cannot be read: {reason}. "
        "Name a file of certificates (PEM), or unset it.",
        cause="certificate",
    )
