"""Requests to the servers that issue tokens. They block: a sign-in has nothing else to wait for, and a renewal runs in
a thread."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Any, NoReturn
from urllib.parse import urlencode, urlsplit

from ebbtide.agent.errors import AuthFailed, ConfigError, ProviderError, RouteFailed, Unreachable
from ebbtide.agent.providers.setup import is_loopback
from ebbtide.tools.outputs.plain_text import terminal_text
from ebbtide.tools.secrets.redaction import redact_text, redact_url

TIMEOUT_S = 15.0
MAX_ANSWER_BYTES = 1 << 20
MAX_QUOTED_CHARS = 200
MAX_NUMBER = 1e11
"""Limit of plausible numbers in a response: seconds, or Unix seconds."""
_CLOCK_ERRORS = (9, 10)
"""OpenSSL's error codes for a certificate that is not yet valid, and for one that has expired."""


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """A server's response, which is always a JSON object."""

    status: int
    content: Mapping[str, Any]
    clock_difference_s: float
    """How far this machine's clock is ahead of the server's, in seconds; 0 if unknown."""

    def text(self, name: str) -> str:
        """Return a string field of the response; empty if it is missing."""
        value = self.content.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float:
        """Return a numeric field of the response, which may be written as a string; 0 if it is missing, not a
        number or absurdly large."""
        value = self.content.get(name)
        try:
            number = 0.0 if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
        except (ValueError, OverflowError):
            return 0.0
        return number if abs(number) < MAX_NUMBER else 0.0

    @property
    def error(self) -> str:
        """The error code; empty if there is no error."""
        error = self.content.get("error")
        return error if isinstance(error, str) else str(error.get("code") or "") if isinstance(error, dict) else ""

    @property
    def reason(self) -> str:
        """The server's description of the error, as one printable line."""
        nested = self.content.get("error")
        words = self.text("error_description") or (nested.get("message") if isinstance(nested, dict) else "")
        line = " ".join(redact_text(terminal_text(str(words or "")), {}).split()).rstrip(".")
        return line[:MAX_QUOTED_CHARS]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, because a token must only be sent to the configured server."""

    def redirect_request(
        self, request: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def check_address(url: str) -> str:
    """Return a server's address without a trailing slash. Raises `ConfigError` if it would be unsafe to send tokens
    there: the address must use TLS unless it is on this machine."""
    split_url = urlsplit(url)
    host = split_url.hostname or ""
    if host and (split_url.scheme == "https" or (split_url.scheme == "http" and is_loopback(host))):
        return url.rstrip("/")
    raise ConfigError(f"`{redact_url(url)}` cannot sign you in; `sign_in_url` must begin with `https://`")


def post_form(url: str, fields: Mapping[str, str]) -> TokenResponse:
    """Send a form. Raises `ProviderError` unless the response is a JSON object."""
    headers = {"content-type": "application/x-www-form-urlencoded"}
    return _send(urllib.request.Request(url, urlencode(fields).encode(), headers))


def get_json(url: str, token: str) -> TokenResponse:
    """Request a URL with a token. Raises `ProviderError` unless the response is a JSON object."""
    return _send(urllib.request.Request(url, headers={"authorization": f"Bearer {token}"}))


def _send(request: urllib.request.Request) -> TokenResponse:
    request.add_header("accept", "application/json")
    request.add_header("user-agent", "ebbtide")
    opener, host = urllib.request.build_opener(_NoRedirects), request.host  # a proxy replaces the host
    try:
        try:
            with opener.open(request, timeout=TIMEOUT_S) as response:
                return _read(request, response)
        except urllib.error.HTTPError as response:
            with response:
                return _read(request, response)
    except (OSError, HTTPException, ValueError) as error:
        _raise_unreachable(host, request, error)


def _read(request: urllib.request.Request, response: HTTPResponse | urllib.error.HTTPError) -> TokenResponse:
    status = response.status if response.status is not None else 0
    try:
        content = json.loads(_read_body(response))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or status >= 500:
        raise answer_error(request.host, status)
    answer = TokenResponse(status, content, _clock_difference(response.headers.get("date")))
    if status == 429 and not answer.error:  # Auth0 sends `slow_down` with this status
        raise answer_error(request.host, status)
    return answer


def _read_body(response: HTTPResponse | urllib.error.HTTPError) -> bytes:
    """Read a body, up to its limit. Raises `TimeoutError` if it arrives too slowly, because other processes wait for a
    renewal."""
    deadline, body = time.monotonic() + TIMEOUT_S, bytearray()
    while len(body) < MAX_ANSWER_BYTES and (chunk := response.read1(MAX_ANSWER_BYTES - len(body))):
        body += chunk
        if time.monotonic() > deadline:
            raise TimeoutError("the response is too slow")
    return bytes(body)


def answer_error(host: str, status: int) -> ProviderError:
    """Return the error for an overloaded or failing server, or for a response that is not a JSON object."""
    if status == 429:
        return Unreachable(f"{host} has too many requests (HTTP 429). Try again later.")
    if status >= 500:
        return Unreachable(f"{host} has a problem (HTTP {status}). Try again later.")
    return RouteFailed(
        f"{host} did not answer with JSON (HTTP {status}): a proxy or login page may be in between, or `sign_in_url` "
        "is wrong.",
        cause="portal",
    )


def _clock_difference(date: str | None) -> float:
    try:
        return time.time() - parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _raise_unreachable(host: str, request: urllib.request.Request, error: Exception) -> NoReturn:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, ssl.SSLCertVerificationError):
        if reason.verify_code in _CLOCK_ERRORS:
            now = time.strftime("%Y-%m-%d %H:%M")
            raise RouteFailed(
                f"the certificate of {host} is not valid at the time of this machine, {now}. Check its clock.",
                cause="certificate",
            ) from error
        raise RouteFailed(
            f"the certificate of {host} is not trusted: {reason.verify_message}. If your company uses its own "
            "certificates, set `SSL_CERT_FILE` to their file.",
            cause="certificate",
        ) from error
    proxy = request.host if request.host != host else ""
    setting = urllib.request.getproxies().get(urlsplit(request.full_url).scheme, "")
    if proxy and setting.startswith("socks"):
        raise RouteFailed(
            f"the sign-in cannot use the SOCKS proxy `{proxy}`. Set `HTTPS_PROXY` to an HTTP proxy.", cause="proxy"
        ) from error
    words = (reason.strerror if isinstance(reason, OSError) else None) or str(reason) or type(reason).__name__
    route, subject = (f" through the proxy `{proxy}`", "proxy") if proxy else ("", "network")
    raise Unreachable(f"{host} cannot be reached{route}: {words.rstrip('.')}. Check the {subject}.") from error


def is_sendable(token: str) -> bool:
    """Whether a token can be sent in a header."""
    return bool(token) and token.isascii() and token.isprintable() and " " not in token


def refusal_error(title: str, answer: TokenResponse) -> AuthFailed:
    """Return the general error for a refused sign-in."""
    if answer.status == 200 and not answer.error:
        return AuthFailed(f"{title} sent an incomplete or invalid response to the sign-in. Try again later.")
    name = redact_text(terminal_text(answer.error), {})[:MAX_QUOTED_CHARS] or f"HTTP {answer.status}"
    return AuthFailed(f"{title} refuses the sign-in: {name}{f' ({answer.reason})' if answer.reason else ''}.")
