"""Access control for `ebb serve`, based on request headers. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Literal, TypeAlias

AccessVerdict: TypeAlias = Literal["allow", "set cookie", "deny"]


TOKEN_LIFETIME_S = 600.0
"""How long a token is valid, in seconds."""
COOKIE_LIFETIME_S = 12 * 3600.0
"""How long a cookie is valid, in seconds."""


@dataclass(slots=True)
class BrowserAccess:
    """Access by token and cookie. A browser presents the URL's token once and is issued a cookie, which it uses from
    then on. The URL then no longer works. All times are in seconds of the same clock.

    Cookies are set for an unguessable path. Otherwise, other servers on this machine would receive them, because
    browsers ignore ports when they send cookies.
    """

    port: int
    secret_path: str = field(repr=False)
    """The unguessable path."""
    token: str = field(repr=False)
    token_issued_at: float = 0.0
    """When the token was issued."""
    cookies: dict[str, float] = field(default_factory=dict, repr=False)
    """The cookies issued and when they expire."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def login_url(self) -> str:
        return f"{self.origin}/?token={self.token}"

    @property
    def path_prefix(self) -> str:
        """The path under which everything is served."""
        return f"/{self.secret_path}"

    @property
    def cookie_name(self) -> str:
        return f"ebb-{self.port}"

    def check_request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        cookies: Mapping[str, str],
        now: float,
    ) -> AccessVerdict:
        """Decide how to respond to a request. `headers` have lower-case names. A wrong host may mean DNS rebinding; a
        wrong origin means that another page sent the request. A WebSocket request must state its origin."""
        origin = headers.get("origin")
        if method not in ("GET", "HEAD") or headers.get("host") != self.host:
            return "deny"
        if origin is not None and origin != self.origin:
            return "deny"
        if path.startswith(f"{self.path_prefix}/ws") and origin is None:
            return "deny"
        sent_cookie = cookies.get(self.cookie_name, "")
        if path.startswith(f"{self.path_prefix}/") and any(
            _secrets_match(sent_cookie, cookie) and now < expiry for cookie, expiry in self.cookies.items()
        ):
            return "allow"
        is_token_valid = bool(self.token) and now < self.token_issued_at + TOKEN_LIFETIME_S
        is_token_request = (
            method == "GET" and path == "/" and is_token_valid and _secrets_match(query.get("token", ""), self.token)
        )
        return "set cookie" if is_token_request else "deny"

    def admit_browser(self, cookie: str, now: float) -> None:
        """Invalidate the token, and admit the browser with the new cookie until the cookie expires."""
        self.token = ""
        self.cookies = {
            **{valid_cookie: expiry for valid_cookie, expiry in self.cookies.items() if now < expiry},
            cookie: now + COOKIE_LIFETIME_S,
        }

    def replace_token(self, token: str, now: float) -> None:
        """Replace the token so that another browser can be admitted. The previous URL becomes invalid."""
        self.token, self.token_issued_at = token, now

    def response_headers(self) -> dict[str, str]:
        """Headers for every response. They keep the page from loading anything from other sites, and other pages from
        framing or reading it."""
        directives = (
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
            "Content-Security-Policy": "; ".join(directives),
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }


def _secrets_match(received: str, expected: str) -> bool:
    return compare_digest(received.encode("utf-8", "replace"), expected.encode())
