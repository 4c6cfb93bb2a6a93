"""Adds an editor's MCP servers and additional folders to a configuration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from ebbtide.agent.config.table_keys import SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError

McpServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

SOURCE = "the editor"


def with_client(config: Config, servers: Sequence[McpServer], folders: Sequence[str]) -> Config:
    """The configuration with the editor's additions, which count as the user's own. Raises `UsageError`."""
    tables = {server.name: _table(server) for server in servers}
    sources = {f"mcp.servers.{name}.{key}": SOURCE for name, table in tables.items() for key in table}
    return replace(
        config,
        servers={**config.servers, **tables},
        roots=(*config.roots, *folders),
        sources={**config.sources, **sources},
    )


def _table(server: McpServer) -> dict[str, object]:
    match server:
        case McpServerStdio(command=command, args=args, env=env):
            said: dict[str, object] = {"command": command, "args": args, "env": {one.name: one.value for one in env}}
        case HttpMcpServer(url=url, headers=headers) | SseMcpServer(url=url, headers=headers):
            kind = "sse" if isinstance(server, SseMcpServer) else "http"
            said = {"url": url, "headers": {one.name: one.value for one in headers}, "type": kind}
        case AcpMcpServer(name=name):
            raise UsageError(f"the server `{name}` is to be reached through the editor, which is not possible yet")
    try:
        return {key: SERVER_KEYS[key](value) for key, value in said.items()}
    except ValueError as error:
        raise UsageError(f"the server `{server.name}` of the editor cannot be used: it must be {error}") from error
