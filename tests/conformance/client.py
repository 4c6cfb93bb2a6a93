"""The client that the protocol's conformance suite runs: our own servers' code, told to do what a scenario expects.

    python -m tests.conformance.client URL

The scenario's name stands in `MCP_CONFORMANCE_SCENARIO`.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import httpx2

from ebbtide.tools.base import ToolError
from ebbtide.tools.integrations.mcp.client_handlers import (
    AcceptedAnswer,
    ClientHandlers,
    ClientService,
    ElicitationAnswer,
)
from ebbtide.tools.integrations.mcp.offers import ServerState
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.integrations.mcp.spec import LoginSettings, ServerSpec

ARGUMENTS: Mapping[str, Mapping[str, object]] = {"add_numbers": {"a": 5, "b": 3}}
"""Of the tools that need any."""


DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The address under which the suite knows a client that is not registered."""
LOGINS = 3
"""Times that a server may want more of a login before it is left alone."""


class Visitor(ClientHandlers):
    """A user who accepts every form as it is, and logs in wherever that is wanted."""

    services: frozenset[ClientService] = frozenset({"elicitation"})

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> ElicitationAnswer:
        return AcceptedAnswer({})

    async def open_login(self, server: str, url: str) -> None:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            await browser.get(url)


async def main(url: str) -> int:
    """Connects, calls every tool once, and leaves. 1 when the server could not be used."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    login = LoginSettings(context.get("client_id", DOCUMENT), context.get("client_secret", ""))
    with tempfile.TemporaryDirectory() as folder:
        log, credentials = Path(folder) / "server.log", Path(folder) / "credentials.json"
        server = McpServer(ServerSpec("conformance", url=url, login=login), Visitor(), log, credentials)
        server.start()
        try:
            for tool in (await _ready(server)).tools:
                await _called(server, tool.original_name)
            return 0 if server.state.phase == "ready" else 1
        finally:
            await server.close()
            print(server.state.detail, log.read_text(), sep="\n")


async def _ready(server: McpServer) -> ServerState:
    state = await server.wait_until_started()
    if state.phase == "needs_login":
        state = await server.login()
    print(state.phase, state.detail)
    return state


async def _called(server: McpServer, name: str) -> None:
    """Calls the tool, and again after a login, if the server wants more of that than before."""
    for _ in range(LOGINS):
        try:
            print(name, await server.call(name, ARGUMENTS.get(name, {}), print))
            return
        except ToolError as error:
            print(name, error)
            if server.state.phase != "needs_login":
                return
            await _ready(server)


if __name__ == "__main__":
    print("scenario", os.environ.get("MCP_CONFORMANCE_SCENARIO"))
    sys.exit(asyncio.run(main(sys.argv[1])))
