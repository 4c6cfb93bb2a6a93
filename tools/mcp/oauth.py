"""Logging in to servers at an address: the SDK's OAuth with a browser, a local address that it comes back to, and a
file for what the login gave. Without a user, what is in the file is used and renewed, and nothing is asked."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from tools.mcp.callback import Callback, callback
from tools.mcp.client_handlers import ClientHandlers
from tools.mcp.offers import NeedsLogin
from tools.mcp.spec import ServerSpec
from tools.mcp.texts import one_line
from tools.mcp.vault import Vault


@asynccontextmanager
async def authorisation(
    spec: ServerSpec, vault: Vault, handlers: ClientHandlers, with_user: bool
) -> AsyncIterator[httpx2.Auth | None]:
    """What requests to the server are authorised with. `with_user`: a login is done now, if the server wants one;
    otherwise that raises `NeedsLogin` out of the request."""
    if any(name.lower() == "authorization" for name in spec.headers):
        yield None  # the user has a key and no account
    elif with_user:
        async with _listening(spec, vault) as back:
            vault.write(port=back.port)
            yield _provider(spec, vault, handlers, back)
    elif "tokens" in vault.read():
        yield _provider(spec, vault, handlers, None)
    else:
        yield _NotLoggedIn()


class _NotLoggedIn(httpx2.Auth):
    """Sends requests as they are. Registers nowhere before the user wants to log in."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            raise NeedsLogin


@asynccontextmanager
async def _listening(spec: ServerSpec, vault: Vault) -> AsyncIterator[Callback]:
    """A local address to come back to: the one of the last login, which the server may hold us to, if it is free."""
    known = vault.read().get("port", 0)
    wanted = spec.login.port or (known if isinstance(known, int) else 0)
    try:
        async with callback(wanted) as back:
            yield back
            return
    except OSError:
        if spec.login.port or not wanted:
            raise
    vault.write(client=None)  # registered with an address that somebody else has now
    async with callback(0) as back:
        yield back


def _provider(spec: ServerSpec, vault: Vault, handlers: ClientHandlers, back: Callback | None) -> OAuthClientProvider:
    async def open_login(url: str) -> None:
        if back is None:
            # The server may want more of the next login than of the last one.
            wanted = dict(parse_qsl(urlsplit(url).query)).get("scope", "")
            vault.write(scope=wanted)
            raise NeedsLogin
        back.expect(url)
        await handlers.open_login(spec.name, url)

    async def come_back() -> AuthorizationCodeResult:
        if back is None:
            raise NeedsLogin
        try:
            async with asyncio.timeout(spec.login.patience):
                given = await back.answer()
        except TimeoutError:
            raise NeedsLogin(f"the login was not finished within {spec.login.patience:g} seconds") from None
        if "error" in given:
            said = given.get("error_description") or given["error"]
            raise NeedsLogin(f"the login was refused: {one_line(said)}")
        return AuthorizationCodeResult(code=given.get("code", ""), state=given.get("state"), iss=given.get("iss"))

    login = spec.login
    is_document = login.client_id.startswith("https://")
    storage = _Storage(spec, vault)
    provider = OAuthClientProvider(
        spec.url,
        _Wanted.model_validate(
            {
                "client_name": "Ebbtide",
                "redirect_uris": [back.address if back else "http://127.0.0.1/callback"],
                "scope": " ".join([*login.scopes, *_wanted_before(vault)]) or None,
            }
        ),
        storage,
        redirect_handler=open_login,
        callback_handler=come_back,
        client_metadata_url=login.client_id if is_document else None,
    )
    storage.fill(provider.context)
    return provider


def _wanted_before(vault: Vault) -> list[str]:
    """The scopes that the server asked for when no login was possible."""
    scope = vault.read().get("scope")
    return scope.split() if isinstance(scope, str) else []


class _Wanted(OAuthClientMetadata):
    """What is asked for. Scopes that were asked for once, or that the user configured, are asked for again, whatever
    else a server wants."""

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401  # as the SDK has it
        if name == "scope":
            value = " ".join(dict.fromkeys([*(self.scope or "").split(), *(value or "").split()])) or None
        super().__setattr__(name, value)


class _Storage:
    """The SDK's view of a vault. It keeps what is needed to renew a token as well, which the SDK forgets."""

    def __init__(self, spec: ServerSpec, vault: Vault) -> None:
        self._spec = spec
        self._vault = vault
        self._context: OAuthContext

    def fill(self, context: OAuthContext) -> None:
        """Gives the SDK back what it has found out about the server in earlier runs."""
        self._context = context
        kept = self._vault.read()
        try:
            if "authorization_server" in kept:
                context.oauth_metadata = OAuthMetadata.model_validate(kept["authorization_server"])
            if "resource" in kept:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept["resource"])
                context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])
        except ValidationError:
            return  # found out again
        expires = kept.get("expires")
        context.token_expiry_time = expires if isinstance(expires, int | float) else None

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return OAuthToken.model_validate(self._vault.read()["tokens"])
        except (KeyError, ValidationError):
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        known = {
            "authorization_server": self._context.oauth_metadata,
            "resource": self._context.protected_resource_metadata,
        }
        self._vault.write(
            tokens=tokens.model_dump(mode="json"),
            expires=time.time() + tokens.expires_in if tokens.expires_in else None,
            **{name: value.model_dump(mode="json", exclude_none=True) for name, value in known.items() if value},
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        login = self._spec.login
        if login.client_id and not login.client_id.startswith("https://"):
            return OAuthClientInformationFull(
                client_id=login.client_id,
                client_secret=login.client_secret or None,
                redirect_uris=[AnyUrl(str(uri)) for uri in self._context.client_metadata.redirect_uris or ()],
                token_endpoint_auth_method=self._secret_goes() if login.client_secret else "none",
            )
        try:
            return OAuthClientInformationFull.model_validate(self._vault.read()["client"])
        except (KeyError, ValidationError):
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._vault.write(client=client_info.model_dump(mode="json", exclude_none=True))

    def _secret_goes(self) -> str:
        """Where the server wants the secret of a client, as far as that is known by now."""
        metadata = self._context.oauth_metadata
        methods = metadata.token_endpoint_auth_methods_supported if metadata else None
        return "client_secret_post" if methods and "client_secret_basic" not in methods else "client_secret_basic"
