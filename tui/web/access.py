"""Access control of `ebb serve`: a pure decision from a request's headers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Literal, TypeAlias

AccessVerdict: TypeAlias = Literal["let in", "give a cookie", "refuse"]


TOKEN_LIFETIME_S = 600.0
"""Seconds for which a URL is valid."""
COOKIE_LIFETIME_S = 12 * 3600.0
"""Seconds for which a cookie is valid."""


@dataclass(slots=True)
class BrowserAccess:
    """A browser shows the token once, from the URL, and then the cookie that it got for it. The URL does not work
    again. Times are seconds of one clock.

    Cookies ignore ports: they are set for an unguessable path, so that other servers on this machine are not sent them.
    """

    port: int
    folder: str = field(repr=False)
    """The unguessable path."""
    token: str = field(repr=False)
    since: float = 0.0
    """When the token was issued."""
    cookies: dict[str, float] = field(default_factory=dict, repr=False)
    """The cookies issued, with their expiry."""

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
    def root(self) -> str:
        """The path prefix."""
        return f"/{self.folder}"

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
        now: float,
    ) -> AccessVerdict:
        """`headers` have lower-case names. Another `host` may be DNS rebinding; another `origin` is another page. A
        WebSocket must send its origin."""
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") or headers.get("host") != self.host:
            return "refuse"
        if origin is not None and origin != self.origin:
            return "refuse"
        if path.startswith(f"{self.root}/ws") and origin is None:
            return "refuse"
        given = cookies.get(self.cookie, "")
        if path.startswith(f"{self.root}/") and any(
            _same(given, cookie) and now < until for cookie, until in self.cookies.items()
        ):
            return "let in"
        is_open = bool(self.token) and now < self.since + TOKEN_LIFETIME_S
        is_first = method == "GET" and path == "/" and is_open and _same(query.get("token", ""), self.token)
        return "give a cookie" if is_first else "refuse"

    def admit(self, cookie: str, now: float) -> None:
        """Use up the token; the cookie admits one browser for a while."""
        self.token = ""
        self.cookies = {
            **{each: until for each, until in self.cookies.items() if now < until},
            cookie: now + COOKIE_LIFETIME_S,
        }

    def renew(self, token: str, now: float) -> None:
        """Replace the token, for another browser; the earlier URL becomes invalid."""
        self.token, self.since = token, now

    def headers(self) -> dict[str, str]:
        """Headers of every response: the page loads nothing from elsewhere, and no other page may frame or read it."""
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
