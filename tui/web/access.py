"""Who may reach the served terminal: a pure decision over what a request says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Literal, TypeAlias

AccessVerdict: TypeAlias = Literal["let in", "give a cookie", "refuse"]


@dataclass(frozen=True, slots=True)
class BrowserAccess:
    """A browser shows the token once, in the address that the user was told, and a cookie from then on."""

    port: int
    token: str = field(repr=False)
    secret: str = field(repr=False)
    """What the cookie holds. It is not the token: whoever sees the cookie cannot make an address of it."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def address(self) -> str:
        return f"{self.origin}/?token={self.token}"

    @property
    def cookie(self) -> str:
        return f"ebb-{self.port}"

    def judge(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        cookies: Mapping[str, str],
    ) -> AccessVerdict:
        """Names of headers are in lower case. Another `host` is somebody's name for this machine, made to get past the
        rules of browsers; another `origin` is another page. A socket has to say where it comes from."""
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") or headers.get("host") != self.host:
            return "refuse"
        if origin is not None and origin != self.origin:
            return "refuse"
        if path == "/ws" and origin is None:
            return "refuse"
        if _same(cookies.get(self.cookie, ""), self.secret):
            return "let in"
        return "give a cookie" if path == "/" and _same(query.get("token", ""), self.token) else "refuse"

    def headers(self) -> dict[str, str]:
        """What every answer says: the page loads nothing from elsewhere, and no other page holds or reads it."""
        rules = (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src 'self' ws://{self.host}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
        return {
            "Content-Security-Policy": "; ".join(rules),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), wanted.encode())
