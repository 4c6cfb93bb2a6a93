"""OAuth login to remote servers: the SDK's OAuth with a browser, a local callback URL and a credentials file. If there
is no user, stored credentials are used and refreshed, but no login is started."""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
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

from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.offers import LoginRequiredError
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.texts import one_line
from ebbtide.tools.network.addresses import IpAddress, is_link_local, is_public
from ebbtide.tools.network.connection import proxy_for
from ebbtide.tools.network.name_lookup import UnknownHostError, private_address_message, resolve_addresses

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CALLBACK_PATH = "/callback"
_MAX_REQUEST_BYTES = 16_384
"""Maximum length of a header line, in bytes."""
_REQUEST_TIMEOUT_S = 10.0
"""Seconds within which a browser must send its request."""

_RESPONSE_TEMPLATE = (
    "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {size}\r\n"
    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{page}"
)


@asynccontextmanager
async def authorisation(
    spec: ServerSpec, credentials_path: Path, handlers: ClientHandlers, allow_login: bool
) -> AsyncIterator[httpx2.Auth | None]:
    """Yield the authentication for requests to the server. `allow_login`: log in if the server requires it. If there is
    no user, a request that requires a login raises `LoginRequiredError`."""
    storage = _Storage(spec, credentials_path)
    if any(name.lower() == "authorization" for name in spec.headers):
        yield None  # the user has configured a key
    elif allow_login:
        async with _local_callback(spec, storage) as login_callback:
            storage.write(port=login_callback.port)
            yield _create_provider(spec, storage, handlers, login_callback)
    elif "tokens" in storage.read():
        yield _create_provider(spec, storage, handlers, None)
    else:
        yield _UnauthenticatedAuth()


class _UnauthenticatedAuth(httpx2.Auth):
    """Sends requests unchanged, and raises `LoginRequiredError` if the server requires a login. No client is registered
    until the user wants to log in."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            raise LoginRequiredError


@asynccontextmanager
async def _local_callback(spec: ServerSpec, storage: "_Storage") -> AsyncIterator["LoginCallback"]:
    """Yield a local callback, on the port of the last login if that port is free. The client may be registered with
    that port."""
    stored_port = storage.read().get("port", 0)
    preferred_port = spec.login.port or (stored_port if isinstance(stored_port, int) else 0)
    try:
        async with serve_callback(preferred_port) as login_callback:
            yield login_callback
            return
    except OSError:
        if spec.login.port or not preferred_port:
            raise
    storage.write(client=None)  # the client is registered with a port that another program now uses
    async with serve_callback(0) as login_callback:
        yield login_callback


def _create_provider(
    spec: ServerSpec, storage: "_Storage", handlers: ClientHandlers, login_callback: "LoginCallback | None"
) -> OAuthClientProvider:
    async def open_login(url: str) -> None:
        if login_callback is None:
            # Remember the scopes, because the server may require them at the next login.
            scope = dict(parse_qsl(urlsplit(url).query)).get("scope", "")
            storage.write(scope=scope)
            raise LoginRequiredError
        login_callback.expect(url)
        await handlers.open_login(spec.name, url)

    async def wait_for_redirect() -> AuthorizationCodeResult:
        if login_callback is None:
            raise LoginRequiredError
        try:
            async with asyncio.timeout(spec.login.timeout):
                parameters = await login_callback.wait_for_redirect()
        except TimeoutError:
            raise LoginRequiredError(f"the login was not finished within {spec.login.timeout:g} seconds") from None
        if "error" in parameters:
            reason = parameters.get("error_description") or parameters["error"]
            raise LoginRequiredError(f"the login was refused: {one_line(reason)}")
        return AuthorizationCodeResult(
            code=parameters.get("code", ""), state=parameters.get("state"), iss=parameters.get("iss")
        )

    login = spec.login
    is_metadata_url = login.client_id.startswith("https://")
    provider = _GuardedLogin(
        spec.url,
        _ClientMetadata.model_validate(
            {
                "client_name": "Ebbtide",
                "redirect_uris": [login_callback.url if login_callback else "http://127.0.0.1/callback"],
                "scope": " ".join([*login.scopes, *_stored_scopes(storage)]) or None,
            }
        ),
        storage,
        redirect_handler=open_login,
        callback_handler=wait_for_redirect,
        client_metadata_url=login.client_id if is_metadata_url else None,
    )
    storage.restore_metadata(provider.context)
    return provider


class _GuardedLogin(OAuthClientProvider):
    """Restricts login requests to the server itself and the public network. The server chooses the addresses, and could
    name hosts that only this machine can reach.

    A server on a private network may name other private hosts, but no link-local addresses, because these give access
    to cloud credentials. Connections go to exactly the address that was checked, so later DNS changes have no effect.
    """

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super().async_auth_flow(request)
        try:
            login_request = await anext(flow)
            while True:
                if login_request.url.host != request.url.host:
                    await _pin_address(login_request, request.url)
                response = yield login_request
                login_request = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


async def _pin_address(login_request: httpx2.Request, server: httpx2.URL) -> None:
    """Direct a request to a permitted address of its host. If the environment sets a proxy, the proxy resolves the
    host's name instead. Raises `LoginRequiredError`."""
    try:
        address = await _check_address(login_request.url, server)
    except UnknownHostError:
        return  # only a proxy may know the name
    if not proxy_for(login_request.url.scheme, login_request.url.netloc.decode("ascii")):
        # The Host header and TLS still use the host's name.
        login_request.extensions = {**login_request.extensions, "sni_hostname": login_request.url.host}
        login_request.url = login_request.url.copy_with(host=str(address))


async def _check_address(url: httpx2.URL, server: httpx2.URL) -> IpAddress:
    addresses = await resolve_addresses(url.host, url.port or _DEFAULT_PORTS.get(url.scheme, 443))
    server_addresses = await resolve_addresses(server.host, server.port or _DEFAULT_PORTS.get(server.scheme, 443))
    for address in addresses:
        if not is_public(address) and (is_link_local(address) or any(map(is_public, server_addresses))):
            address_problem = private_address_message(url.host, address)
            raise LoginRequiredError(f"the server wants the login to contact another host, and {address_problem}")
    return addresses[0]


def _stored_scopes(storage: "_Storage") -> list[str]:
    """Return the scopes that the server requested when no login was possible."""
    scope = storage.read().get("scope")
    return scope.split() if isinstance(scope, str) else []


class _ClientMetadata(OAuthClientMetadata):
    """Client metadata that accumulates scopes: once a scope was requested or configured, every later request includes
    it."""

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401  # the SDK's signature
        if name == "scope":
            value = " ".join(dict.fromkeys([*(self.scope or "").split(), *(value or "").split()])) or None
        super().__setattr__(name, value)


class _Storage:
    """The credentials file for one server, readable only by its owner. It stores the SDK's data and what is needed to
    refresh a token. Credentials for a different URL are ignored."""

    def __init__(self, spec: ServerSpec, path: Path) -> None:
        self._spec = spec
        self._path = path
        self._context: OAuthContext

    def read(self) -> Mapping[str, Any]:
        """Return the stored values; empty if the file is missing or unreadable."""
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return stored if isinstance(stored, dict) and stored.get("url") == self._spec.url else {}

    def write(self, **values: object) -> None:
        """Store these values and keep all others. Raises `OSError`."""
        stored = {**self.read(), "url": self._spec.url, **values}
        create_private_folder(self._path.parent)
        temporary_path = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            with suppress(FileNotFoundError):
                temporary_path.unlink()
            with os.fdopen(os.open(temporary_path, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump(stored, file)
            temporary_path.replace(self._path)
        finally:
            with suppress(FileNotFoundError):
                temporary_path.unlink()

    def restore_metadata(self, context: OAuthContext) -> None:
        """Restore the server's metadata that the SDK discovered in earlier runs."""
        self._context = context
        stored = self.read()
        try:
            if "authorization_server" in stored:
                context.oauth_metadata = OAuthMetadata.model_validate(stored["authorization_server"])
            if "resource" in stored:
                context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(stored["resource"])
                context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])
        except ValidationError:
            return  # the SDK discovers the rest again
        expiry_time = stored.get("expires")
        context.token_expiry_time = expiry_time if isinstance(expiry_time, int | float) else None

    async def get_tokens(self) -> OAuthToken | None:
        try:
            return OAuthToken.model_validate(self.read()["tokens"])
        except (KeyError, ValidationError):
            return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        metadata = {
            "authorization_server": self._context.oauth_metadata,
            "resource": self._context.protected_resource_metadata,
        }
        self.write(
            tokens=tokens.model_dump(mode="json"),
            expires=time.time() + tokens.expires_in if tokens.expires_in else None,
            **{name: value.model_dump(mode="json", exclude_none=True) for name, value in metadata.items() if value},
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        login = self._spec.login
        if login.client_id and not login.client_id.startswith("https://"):
            return OAuthClientInformationFull(
                client_id=login.client_id,
                client_secret=login.client_secret or None,
                redirect_uris=[AnyUrl(str(uri)) for uri in self._context.client_metadata.redirect_uris or ()],
                token_endpoint_auth_method=self._secret_auth_method() if login.client_secret else "none",
            )
        try:
            return OAuthClientInformationFull.model_validate(self.read()["client"])
        except (KeyError, ValidationError):
            return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.write(client=client_info.model_dump(mode="json", exclude_none=True))

    def _secret_auth_method(self) -> str:
        """Return how the server accepts client secrets; `client_secret_basic` if unknown."""
        metadata = self._context.oauth_metadata
        methods = metadata.token_endpoint_auth_methods_supported if metadata else None
        return "client_secret_post" if methods and "client_secret_basic" not in methods else "client_secret_basic"


class LoginCallback:
    """Waits until the browser returns from the login that was passed to `expect`."""

    def __init__(self) -> None:
        self.port = 0
        self._state = ""
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{_CALLBACK_PATH}"

    def expect(self, login: str) -> None:
        """Accept only the answer to this login from now on. While starting, a server might ask for a second login with
        more scopes."""
        self._state = dict(parse_qsl(urlsplit(login).query)).get("state", "")
        self._answer = asyncio.get_running_loop().create_future()

    async def wait_for_redirect(self) -> Mapping[str, str]:
        """Return the parameters of the redirect: `code` and `state`, or `error`."""
        return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                line = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                status, text = self._handle_request(line.decode("ascii", "replace"))
                page = f"<!doctype html><title>Ebbtide</title><p>{text}</p>"
                writer.write(_RESPONSE_TEMPLATE.format(status=status, size=len(page.encode()), page=page).encode())
                await writer.drain()
        except (TimeoutError, ValueError, ConnectionError):
            return  # not the expected browser
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _handle_request(self, line: str) -> tuple[str, str]:
        method, _, request_target = line.partition(" ")
        url = urlsplit(request_target.partition(" ")[0])
        parameters = dict(parse_qsl(url.query))
        if method != "GET" or url.path != _CALLBACK_PATH:
            return "404 Not Found", "There is nothing here."
        if not self._state or parameters.get("state") != self._state:
            return "400 Bad Request", "This is not the answer to the current login."
        if not self._answer.done():
            self._answer.set_result(parameters)
        if "error" in parameters:
            return "200 OK", "You are not logged in. You can close this page."
        return "200 OK", "You are logged in. You can close this page."


@asynccontextmanager
async def serve_callback(port: int) -> AsyncIterator[LoginCallback]:
    """Listen on this loopback port, or on any free port if it is 0. Raises `OSError` if the port is in use."""
    login_callback = LoginCallback()
    server = await asyncio.start_server(login_callback.serve, "127.0.0.1", port, limit=_MAX_REQUEST_BYTES)
    login_callback.port = server.sockets[0].getsockname()[1]
    try:
        yield login_callback
    finally:
        server.close()
        await server.wait_closed()
