"""The client that the protocol's conformance suite runs: our own servers' code, told to do what a scenario expects.

    python -m tests.conformance.client URL

The scenario's name stands in `MCP_CONFORMANCE_SCENARIO`.
"""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.base import Result, ToolError
from tools.mcp.desk import Accepted, Answer, NobodyThere, Service
from tools.mcp.server import Server
from tools.mcp.spec import ServerSpec

ARGUMENTS: Mapping[str, Mapping[str, object]] = {"add_numbers": {"a": 5, "b": 3}}
"""Of the tools that need any."""


class Visitor(NobodyThere):
    """A user who accepts every form as it is."""

    services: frozenset[Service] = frozenset({"elicitation"})

    async def elicit(self, server: str, message: str, schema: Mapping[str, object], url: str) -> Answer:
        return Accepted({})


async def main(url: str) -> int:
    """Connects, calls every tool once, and leaves. 1 when the server could not be used."""
    with tempfile.TemporaryDirectory() as folder:
        log, credentials = Path(folder) / "server.log", Path(folder) / "credentials.json"
        server = Server(ServerSpec("conformance", url=url), Visitor(), log, credentials)
        server.start()
        try:
            state = await server.ready()
            print(state.phase, state.detail)
            for tool in state.tools:
                print(tool.original, await _called(server, tool.original))
            return 0 if state.phase == "ready" else 1
        finally:
            await server.close()


async def _called(server: Server, name: str) -> Result | ToolError:
    try:
        return await server.call(name, ARGUMENTS.get(name, {}), print)
    except ToolError as error:
        return error


if __name__ == "__main__":
    print("scenario", os.environ.get("MCP_CONFORMANCE_SCENARIO"))
    sys.exit(asyncio.run(main(sys.argv[1])))
