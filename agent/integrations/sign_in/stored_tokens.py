"""The stored tokens of a sign-in."""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ebbtide.agent.errors import AuthFailed
from ebbtide.agent.integrations.sign_in.token_server import TokenResponse
from ebbtide.agent.providers.keys import KeyStorage, sign_in_store
from ebbtide.tools.secrets.redaction import register_secret

RENEWAL_MARGIN_S = 300.0
"""A token is renewed this many seconds before it expires. OpenAI allows renewal in the last six minutes; renewing
earlier makes the refresh token useless."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """One account's tokens for a provider. Times are in Unix seconds."""

    access_token: str
    refresh_token: str
    """Empty if the access token cannot be renewed."""
    expires_at: float
    """When the access token expires; 0 if never."""
    renewable_at: float
    """Earliest time at which the token can be renewed; 0 if there is no limit."""
    client_id: str
    """The client id to which the tokens were issued."""
    token_url: str
    """The URL at which the tokens are renewed."""
    resource: str
    """The resource to name when renewing the tokens; empty if the server does not require one."""

    @property
    def needs_renewal(self) -> bool:
        now = time.time()
        is_due = bool(self.expires_at) and now >= self.expires_at - RENEWAL_MARGIN_S
        return is_due and bool(self.refresh_token) and now >= self.renewable_at


def tokens_from(
    answer: TokenResponse, client_id: str, token_url: str, resource: str, earlier: Tokens | None = None
) -> Tokens:
    """Read the tokens in a server's response, and mask them in all output from now on. `earlier`: the tokens that they
    replace. If the response has no refresh token, the earlier one is kept."""
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
    """Return a provider's tokens; None without a sign-in. Raises `ConfigError`, and `AuthFailed` if the stored
    tokens are damaged."""
    store = sign_in_store(folder)
    text = store.read_key(provider)
    if text is None:
        if provider in store.stored_keys():
            raise AuthFailed(
                "the system keyring does not return your sign-in. Unlock it, or run "
                f"`ebb key sign-in {provider}` again."
            )
        return None
    try:
        tokens = _parse_tokens(text)
    except (ValueError, TypeError) as error:
        raise AuthFailed(f"the stored sign-in is damaged. Run `ebb key sign-in {provider}` again.") from error
    _mask(tokens)
    return tokens


def _parse_tokens(text: str) -> Tokens:
    """Parse stored tokens. Raises `TypeError` or `ValueError` if they are damaged."""
    tokens = Tokens(**json.loads(text))
    texts = (tokens.access_token, tokens.refresh_token, tokens.client_id, tokens.token_url, tokens.resource)
    times = (tokens.expires_at, tokens.renewable_at)
    if not all(isinstance(value, str) for value in texts) or not all(isinstance(value, int | float) for value in times):
        raise TypeError("a field has another type")
    return tokens


def store_tokens(folder: Path, provider: str, origin: str, tokens: Tokens, account: str) -> KeyStorage:
    """Store an account's tokens, and return where they are stored. Raises `ConfigError`."""
    return sign_in_store(folder).store_key(provider, origin, json.dumps(asdict(tokens)), account)


def replace_tokens(folder: Path, provider: str, earlier: Tokens, tokens: Tokens) -> bool:
    """Replace the stored tokens. Return False if the user has meanwhile removed them or signed in again. Raises
    `ConfigError`."""
    store = sign_in_store(folder)
    stored = store.stored_keys().get(provider)
    if stored is None or read_tokens(folder, provider) != earlier:
        return False
    store.store_key(provider, stored.origin, json.dumps(asdict(tokens)), stored.account)
    return True


def without_refresh_token(tokens: Tokens) -> Tokens:
    """Remove the refresh token, after the server has rejected it."""
    return replace(tokens, refresh_token="")


def _mask(tokens: Tokens) -> None:
    for secret in (tokens.access_token, tokens.refresh_token):
        if secret:
            register_secret(secret)
