"""Adds an editor's MCP servers and additional folders to a configuration."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from ebbtide.agent.config.table_keys import MCP_SERVER_KEYS
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError

McpServer: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

SOURCE = "the editor"


def with_client_settings(config: Config, servers: Sequence[McpServer], folders: Sequence[str]) -> Config:
    """Add the editor's servers and folders to a configuration. They are trusted as if the user had added them. Raises
    `UsageError`."""
    tables = {server.name: _server_table(server) for server in servers}
    sources = {f"mcp.servers.{name}.{key}": SOURCE for name, table in tables.items() for key in table}
    return replace(
        config,
        mcp_servers={**config.mcp_servers, **tables},
        roots=(*config.roots, *folders),
        sources={**config.sources, **sources},
    )


def _server_table(server: McpServer) -> dict[str, object]:
    match server:
        case McpServerStdio(command=command, args=args, env=env):
            table: dict[str, object] = {
                "command": command,
                "args": args,
                "env": {variable.name: variable.value for variable in env},
            }
        case HttpMcpServer(url=url, headers=headers) | SseMcpServer(url=url, headers=headers):
            kind = "sse" if isinstance(server, SseMcpServer) else "http"
            table = {"url": url, "headers": {header.name: header.value for header in headers}, "type": kind}
        case AcpMcpServer(name=name):
            raise UsageError(f"the server `{name}` is connected through the editor, which is not supported yet")
    try:
        return {key: MCP_SERVER_KEYS[key](value) for key, value in table.items()}
    except ValueError as error:
        raise UsageError(f"the server `{server.name}` of the editor cannot be used: it must be {error}") from error
