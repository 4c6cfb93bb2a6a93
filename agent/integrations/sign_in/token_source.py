"""Supplies a sign-in's tokens to requests, and renews them. All processes share one lock, so that no refresh token is
used twice: OpenAI ends a sign-in if a used token is sent again."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

from ebbtide.agent.config.clouds import SUBSCRIPTIONS
from ebbtide.agent.config.private_table import file_lock
from ebbtide.agent.errors import AuthFailed, ConfigError, ProviderError
from ebbtide.agent.integrations.sign_in.stored_tokens import (
    Tokens,
    read_tokens,
    replace_tokens,
    tokens_from,
    without_refresh_token,
)
from ebbtide.agent.integrations.sign_in.token_server import is_sendable, post_form, refusal_error
from ebbtide.agent.providers.daemon_thread import run_in_daemon_thread

_LOCK_NAME = "sign-ins.renewal"
FINAL_ERRORS = frozenset(
    {
        "invalid_grant",
        "invalid_client",
        "unauthorized_client",
        "bad_refresh_token",
        "invalid_refresh_token",
        "token_expired",
        "refresh_token_expired",
        "refresh_token_invalidated",
        "refresh_token_reused",
    }
)
"""Errors after which a refresh token will never work again (RFC 6749 section 5.2, and the names used by GitHub and
OpenAI)."""


class TokenSource:
    """Supplies one provider's tokens. A 403 is no reason to renew them: an expired token is answered with 401, and
    other tokens of the same account have the same plan and workspace (openai/codex issues 24495 and 25246)."""

    renewal_statuses = frozenset({401})

    def __init__(self, provider: str, folder: Path) -> None:
        """`folder`: the folder that contains the stored sign-ins."""
        self._provider, self._folder = provider, folder
        self._lock = asyncio.Lock()
        self._tokens: Tokens | None = None
        self._update_task: asyncio.Task[None] | None = None

    async def get_key(self) -> str:
        """Return the access token, renewing it first if it is about to expire. Raises `AgentError`."""
        if self._tokens is None or self._tokens.needs_renewal:
            await self._update("")
        assert self._tokens is not None  # `_update` has set it or raised an error
        return self._tokens.access_token

    async def renew_key(self, rejected: str) -> str:
        """Return a new access token after the server has rejected one, or the rejected token if it cannot be renewed
        now. Raises `AuthFailed` if the sign-in has ended."""
        await self._update(rejected)
        assert self._tokens is not None  # `_update` has set it or raised an error
        return self._tokens.access_token

    async def _update(self, rejected: str) -> None:
        """Read the tokens, and renew them if necessary. Interrupting a request does not interrupt the renewal, so that
        the new refresh token is not lost."""
        self._update_task = asyncio.create_task(self._update_once(rejected))
        self._update_task.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._update_task)

    async def _update_once(self, rejected: str) -> None:
        async with self._lock:
            self._tokens = await run_in_daemon_thread(partial(current_tokens, self._folder, self._provider, rejected))


def current_tokens(folder: Path, provider: str, rejected: str = "") -> Tokens:
    """Return the stored tokens. They are renewed first if they are about to expire, or if the server has rejected the
    access token. Raises `AgentError`."""
    tokens = _stored_tokens(folder, provider)
    if not _is_stale(tokens, rejected):
        return tokens
    with _renewal_lock(folder):
        tokens = _stored_tokens(folder, provider)  # another process may have renewed them
        if not _is_stale(tokens, rejected):
            return tokens
        try:
            return _renew(folder, provider, tokens)
        except ProviderError as error:
            is_valid = tokens.access_token != rejected and time.time() < tokens.expires_at
            if error.cause == "sign_in" or not is_valid:
                raise
            return tokens  # the next request renews them


@contextmanager
def _renewal_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of all processes. Raises `ConfigError` in a folder that is read-only, where no renewal could be
    stored."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(folder / _LOCK_NAME))
        except OSError as error:
            raise ConfigError(f"cannot write in `{folder}`: {error.strerror or error}") from error
        yield


def _is_stale(tokens: Tokens, rejected: str) -> bool:
    return tokens.access_token == rejected or tokens.needs_renewal


def _stored_tokens(folder: Path, provider: str) -> Tokens:
    tokens = read_tokens(folder, provider)
    if tokens is None:
        raise _ended(provider, "you are not signed in to")
    return tokens


def _renew(folder: Path, provider: str, tokens: Tokens) -> Tokens:
    if not tokens.refresh_token or time.time() < tokens.renewable_at:
        return tokens  # the request fails with the server's reason
    fields = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token, "client_id": tokens.client_id}
    fields |= {"resource": tokens.resource} if tokens.resource else {}
    answer = post_form(tokens.token_url, fields)
    if answer.error in FINAL_ERRORS:
        replace_tokens(folder, provider, tokens, without_refresh_token(tokens))
        raise _ended(provider, "your sign-in has ended at")
    if answer.error or not is_sendable(answer.text("access_token")):
        raise refusal_error(SUBSCRIPTIONS[provider].title, answer)
    renewed = tokens_from(answer, tokens.client_id, tokens.token_url, tokens.resource, tokens)
    return renewed if replace_tokens(folder, provider, tokens, renewed) else _stored_tokens(folder, provider)


def _ended(provider: str, what: str) -> AuthFailed:
    return AuthFailed(
        f"{what} {SUBSCRIPTIONS[provider].title}. Run `ebb key sign-in {provider}` in a shell.", cause="sign_in"
    )


_sources: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, Path], TokenSource]] = WeakKeyDictionary()


def shared_token_source(provider: str, folder: Path) -> TokenSource:
    """Return a provider's token source, which all sessions on the event loop share."""
    sources = _sources.setdefault(asyncio.get_running_loop(), {})
    return sources.setdefault((provider, folder), TokenSource(provider, folder))
