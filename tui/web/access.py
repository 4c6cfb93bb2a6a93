"""Who may reach the served terminal: a decision over what a request says of itself, without clock or chance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Literal, TypeAlias

AccessVerdict: TypeAlias = Literal["let in", "give a cookie", "refuse"]


TOKEN_LIFETIME_S = 600.0
"""Seconds in which an address has to be opened."""
COOKIE_LIFETIME_S = 12 * 3600.0
"""Seconds that a browser is let in for."""


@dataclass(slots=True)
class BrowserAccess:
    """A browser shows the token once, in the address that the user was told, and from then on the cookie that it got
    for it. Whoever comes with the same address later gets nothing. Times are seconds of one clock.

    Cookies know no ports: they are given for a folder that nobody can guess, so that no other server on this machine is
    sent one that the same browser visits."""

    port: int
    folder: str = field(repr=False)
    """In which everything is."""
    token: str = field(repr=False)
    since: float = 0.0
    """When the token was told."""
    cookies: dict[str, float] = field(default_factory=dict, repr=False)
    """What was given to browsers, and until when it holds."""

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
        """The path of the folder."""
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
        """Names of headers are in lower case. Another `host` is somebody's name for this machine, made to get past the
        rules of browsers; another `origin` is another page. A socket has to say where it comes from."""
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
        """The token is used up; the cookie lets one browser in for a while."""
        self.token = ""
        self.cookies = {
            **{each: until for each, until in self.cookies.items() if now < until},
            cookie: now + COOKIE_LIFETIME_S,
        }

    def renew(self, token: str, now: float) -> None:
        """Another address, for another browser; the one before is worth nothing."""
        self.token, self.since = token, now

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
