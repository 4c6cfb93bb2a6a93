"""The tokens of a sign-in, as they are stored."""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.integrations.sign_in.token_server import TokenResponse
from ebbtide.agent.providers.keys import KeyStorage, sign_in_store
from ebbtide.tools.secrets.redaction import register_secret

RENEWAL_MARGIN_S = 300.0
"""Seconds before its end at which a token is renewed. OpenAI allows it six minutes before; a renewal that is too early
makes the refresh token useless."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one account at one provider. Times are seconds since 1970."""

    access_token: str
    refresh_token: str
    """Empty if the access token cannot be renewed."""
    expires_at: float
    """When the access token ends; 0 if never."""
    renewable_at: float
    """When it may be renewed at the earliest; 0 if at any time."""
    client_id: str
    """The id for which the tokens were issued."""
    token_url: str
    """Where they are renewed."""
    resource: str
    """What the renewal is for; empty if the server does not ask."""

    @property
    def needs_renewal(self) -> bool:
        now = time.time()
        is_due = bool(self.expires_at) and now >= self.expires_at - RENEWAL_MARGIN_S
        return is_due and bool(self.refresh_token) and now >= self.renewable_at


def tokens_from(
    answer: TokenResponse, client_id: str, token_url: str, resource: str, earlier: Tokens | None = None
) -> Tokens:
    """Return the tokens that a server has issued. `earlier`: those that they replace; a server may keep the refresh
    token. Masks them from now on."""
    lifetime = answer.number("expires_in")
    tokens = Tokens(
        answer.text("access_token"),
        answer.text("refresh_token") or (earlier.refresh_token if earlier is not None else ""),
        time.time() + lifetime if lifetime else 0.0,
        answer.number("earliest_refresh_at"),
        client_id,
        token_url,
        resource,
    )
    _mask(tokens)
    return tokens


def read_tokens(folder: Path, provider: str) -> Tokens | None:
    """Return a provider's tokens; None if nobody is signed in. Raises `ConfigError` and, for damaged ones,
    `AuthFailed`."""
    text = sign_in_store(folder).read_key(provider)
    if text is None:
        return None
    try:
        tokens = Tokens(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise AuthFailed(f"the stored sign-in is damaged. Run `ebb key sign-in {provider}` again.") from error
    _mask(tokens)
    return tokens


def store_tokens(folder: Path, provider: str, origin: str, tokens: Tokens, account: str) -> KeyStorage:
    """Store the tokens of an account; return where. Raises `ConfigError`."""
    return sign_in_store(folder).store_key(provider, origin, json.dumps(asdict(tokens)), account)


def replace_tokens(folder: Path, provider: str, tokens: Tokens) -> None:
    """Store renewed tokens in place of earlier ones. Raises `ConfigError`."""
    store = sign_in_store(folder)
    stored = store.stored_keys()[provider]
    store.store_key(provider, stored.origin, json.dumps(asdict(tokens)), stored.account)


def without_refresh_token(tokens: Tokens) -> Tokens:
    """Return the tokens without the refresh token, which the server has refused."""
    return replace(tokens, refresh_token="")


def _mask(tokens: Tokens) -> None:
    for secret in (tokens.access_token, tokens.refresh_token):
        if secret:
            register_secret(secret)
