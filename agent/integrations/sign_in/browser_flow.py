"""Sign-in in a browser that redirects back to this machine: authorization code with PKCE (RFC 7636, RFC 8252), as
OpenAI documents it for open-source programs."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.integrations.sign_in.token_server import TokenResponse, is_sendable, post_form, refusal_error
from ebbtide.tools.outputs.plain_text import terminal_text

SIGN_IN_LIFETIME_S = 600.0
MAX_WAIT_S = 0.3
"""Maximum number of seconds between checks for the browser's redirect, which another thread handles."""
CALLBACK_PATH = "/auth/callback"
_PAGE = b"<!doctype html><meta charset=utf-8><title>Ebbtide</title><p>Done. Return to the terminal."


@dataclass(frozen=True, slots=True)
class BrowserFlow:
    """A server's endpoints, and the parameters to send to it."""

    title: str
    provider: str
    authorize_url: str
    token_url: str
    issuer: str
    client_id: str
    """The registered client id. Before this program is registered, a general id with which to request the
    registration."""
    scope: str
    required_scope: str
    """The scope without which the tokens are useless."""
    resource: str
    extra_parameters: Mapping[str, str]
    assigns_client_id: bool
    """Whether the server assigns a new client id, which replaces `client_id` from then on."""


@dataclass(slots=True)
class BrowserSignIn:
    """One sign-in in a browser. Listens on this machine until the context ends."""

    flow: BrowserFlow
    _verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    _state: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _nonce: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _callback: Mapping[str, str] | None = None
    _server: ThreadingHTTPServer = field(init=False)

    def __enter__(self) -> "BrowserSignIn":
        sign_in = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                belongs_to_sign_in = sign_in.accept_callback_url(self.path)
                body = _PAGE if belongs_to_sign_in else b"This address does not belong to the sign-in."
                self.send_response(200 if belongs_to_sign_in else 400)
                self.send_header("content-type", "text/html; charset=utf-8")
                self.send_header("content-length", str(len(body)))
                self.send_header("cache-control", "no-store")
                self.send_header("referrer-policy", "no-referrer")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing, because the address contains the code."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads, self._server.block_on_close, self._server.timeout = True, False, 0
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    @property
    def redirect_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{CALLBACK_PATH}"

    @property
    def authorization_url(self) -> str:
        """The URL for the user to open."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self._verifier.encode()).digest()).rstrip(b"=").decode()
        fields = {
            "client_id": self.flow.client_id,
            "response_type": "code",
            "redirect_uri": self.redirect_url,
            "scope": self.flow.scope,
            "resource": self.flow.resource,
            "state": self._state,
            "nonce": self._nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self.flow.extra_parameters,
        }
        return f"{self.flow.authorize_url}?{urlencode(fields)}"

    def fileno(self) -> int:
        """The file descriptor of the listening socket, for `select`."""
        return self._server.fileno()

    def handle_browser(self) -> None:
        """Handle a request from the browser."""
        self._server.handle_request()

    def accept_callback_url(self, address: str) -> bool:
        """Accept a callback URL that the browser requested or the user pasted. Return whether it belongs to this
        sign-in. Only the first such URL is used."""
        split_url = urlsplit(address.strip())
        query = {name: values[0] for name, values in parse_qs(split_url.query).items()}
        belongs_to_sign_in = split_url.path == CALLBACK_PATH and _equals_secret(query.get("state"), self._state)
        if belongs_to_sign_in and self._callback is None:
            self._callback = query
        return belongs_to_sign_in

    def wait_for_tokens(
        self, wait: Callable[[float], None], now: Callable[[], float] = time.monotonic
    ) -> tuple[TokenResponse, str, Mapping[str, Any]]:
        """Wait for the browser's redirect, then exchange its code for tokens. `wait`: waits for the browser or the
        user, for at most the given number of seconds. Returns the token response, this program's client id, and the
        claims about the user. Raises `AgentError`."""
        flow, end = self.flow, now() + SIGN_IN_LIFETIME_S
        while (callback := self._callback) is None:
            if now() >= end:
                raise AuthFailed(
                    f"there was no sign-in within 10 minutes. Run `ebb key sign-in {flow.provider}` again."
                )
            wait(min(end - now(), MAX_WAIT_S))
        if error := callback.get("error", ""):
            raise self._denial_error(error, callback)
        client_id = callback.get("client_id") or ("" if flow.assigns_client_id else flow.client_id)
        if not client_id or not callback.get("code") or (flow.assigns_client_id and client_id == flow.client_id):
            raise AuthFailed(f"{flow.title} did not register this program. Try again later.")
        if not flow.assigns_client_id and client_id != flow.client_id:
            raise AuthFailed(
                f"you signed in with another account than before. Run `ebb key remove {flow.provider}` first."
            )
        answer = post_form(
            flow.token_url,
            {
                "grant_type": "authorization_code",
                "client_id": client_id,
                "code": callback["code"],
                "code_verifier": self._verifier,
                "redirect_uri": self.redirect_url,
                "resource": flow.resource,
            },
        )
        if answer.error or not is_sendable(answer.text("access_token")):
            raise refusal_error(flow.title, answer)
        claims = self._check_id_token(answer, client_id)
        if flow.required_scope not in (answer.text("scope") or callback.get("scope", "")).split():
            raise AuthFailed(
                f"you did not allow Ebbtide to use your {flow.title} plan. Run `ebb key sign-in {flow.provider}` again."
            )
        return answer, client_id, claims

    def _denial_error(self, error: str, callback: Mapping[str, str]) -> AuthFailed:
        if error == "access_denied":
            return AuthFailed(f"you denied access to {self.flow.title}. Nothing was stored.")
        reason = callback.get("error_description", "")
        line = " ".join(terminal_text(f"{error} {f'({reason})' if reason else ''}").split())[:200]
        return AuthFailed(f"{self.flow.title} refuses the sign-in: {line}.")

    def _check_id_token(self, answer: TokenResponse, client_id: str) -> Mapping[str, Any]:
        """Return the claims in the identity token. Its signature is not checked, because the token comes directly from
        the issuer over TLS; OpenID Connect Core 3.1.3.7 allows this. Raises `AuthFailed`."""
        claims = _token_claims(answer.text("id_token"))
        audience = claims.get("aud")
        is_for_us = client_id in audience if isinstance(audience, list) else audience == client_id
        if (
            claims.get("iss") != self.flow.issuer
            or not is_for_us
            or not _equals_secret(claims.get("nonce"), self._nonce)
        ):
            raise AuthFailed(f"the identity that {self.flow.title} sent does not belong to this sign-in. Try again.")
        return claims


def _equals_secret(text: object, secret: str) -> bool:
    """Compare text with a secret in constant time."""
    return isinstance(text, str) and hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode())


def _token_claims(token: str) -> Mapping[str, Any]:
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
