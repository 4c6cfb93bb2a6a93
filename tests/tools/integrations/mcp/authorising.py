"""A server over HTTP that wants its user to log in, and its own authorisation server, which says yes at once.
`python -m tests.tools.integrations.mcp.authorising [denies]` prints its port."""

import asyncio
import socket
import sys
import time
from itertools import count

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    IdentityAssertionParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

SCOPES = ["read"]


class Provider:
    """Registers everybody. Tokens are `access-1`, `refresh-1` and so on."""

    def __init__(self, denies: bool) -> None:
        self._denies = denies
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._refresh: dict[str, RefreshToken] = {}
        self._access: dict[str, AccessToken] = {}
        self._numbers = count(1)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self._denies:
            raise AuthorizeError("access_denied", "not today\x1b[2J")
        code = f"code-{next(self._numbers)}"
        self._codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or SCOPES,
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        return self._token(client, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        return self._token(client, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._access.get(token)

    async def exchange_identity_assertion(
        self, client: OAuthClientInformationFull, params: IdentityAssertionParams
    ) -> OAuthToken:
        raise TokenError("unsupported_grant_type", "nobody here has an identity elsewhere")

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self._access.pop(token.token, None)
        self._refresh.pop(token.token, None)

    def _token(self, client: OAuthClientInformationFull, scopes: list[str]) -> OAuthToken:
        number = next(self._numbers)
        access, refresh = f"access-{number}", f"refresh-{number}"
        self._access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes)
        self._refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600, scope=" ".join(scopes))


async def main(denies: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        root = f"http://127.0.0.1:{port}"
        options = ClientRegistrationOptions(enabled=True, valid_scopes=[*SCOPES, "extra"], default_scopes=SCOPES)
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(root),
            resource_server_url=AnyHttpUrl(f"{root}/mcp"),
            client_registration_options=options,
            required_scopes=SCOPES,
            validate_token_resource=False,
        )
        server = MCPServer("guarded", auth_server_provider=Provider(denies), auth=settings)
        server.add_tool(lambda: "let in", name="enter", description="Says that you are in.")
        print(port, flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main("denies" in sys.argv))
