"""Manages MCP servers outside sessions: lists them, starts one for inspection, and edits the user's configuration file
in place, preserving comments, order and everything else."""

import hashlib
import os
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.table_keys import MCP_SERVER_KEYS
from ebbtide.agent.config.toml_edit import edit_toml_file
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.trust import ProjectTrust, TrustState
from ebbtide.agent.integrations.mcp.approvals import ToolApprovals, create_trust_item
from ebbtide.agent.integrations.mcp.declarations import (
    DeclaredServer,
    ServerOwner,
    UnusableServer,
    declaration_problem,
    load_declared_servers,
)
from ebbtide.tools.integrations.mcp.client_handlers import ClientHandlers
from ebbtide.tools.integrations.mcp.server import McpServer
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.secrets.redaction import redact_options, redact_text, redact_url


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The state of a declared server, as far as it is known without starting it."""

    name: str
    standing: TrustState | Literal["off", "unusable"]
    detail: str
    """Why the server is not on; empty if it is on."""
    owner: ServerOwner
    source: str
    target: str
    """Its command or address as written."""
    ignored: tuple[str, ...] = ()
    """Unsupported keys of its entry."""


def list_servers(config: Config, environment: Mapping[str, str]) -> tuple[ServerRow, ...]:
    """Return one row for each declared server, and one with an empty name for each file that cannot be read."""
    trust = ProjectTrust(config)
    return tuple(_server_row(server, trust) for server in load_declared_servers(config, environment))


def _server_row(server: DeclaredServer | UnusableServer, trust: ProjectTrust) -> ServerRow:
    if isinstance(server, UnusableServer):
        return ServerRow(
            server.name, "off" if server.is_disabled else "unusable", server.problem, server.owner, server.source, ""
        )
    trust_state = trust.trust_state(create_trust_item(server))
    detail_by_state = {
        "not approved": "the user has not approved it",
        "changed": "it has changed since it was approved",
    }
    target = redact_text(" ".join(redact_options(server.declaration.command)) or redact_url(server.declaration.url), {})
    return ServerRow(
        server.name,
        trust_state,
        detail_by_state.get(trust_state, ""),
        server.owner,
        server.source,
        target,
        server.ignored_keys,
    )


def find_server(name: str, config: Config, environment: Mapping[str, str]) -> DeclaredServer:
    """Find a server by name. Raises `UsageError` if it does not exist or cannot be started."""
    servers = load_declared_servers(config, environment)
    for server in servers:
        if server.name == name:
            if isinstance(server, UnusableServer):
                raise UsageError(server.notice)
            return server
    names = ", ".join(f"`{server.name}`" for server in servers if server.name) or "none; `ebb mcp add` adds one"
    raise UsageError(f"unknown server `{name}`; configured: {names}")


def validate_table(name: str, values: Mapping[str, object], config: Config) -> dict[str, object]:
    """Validate and return the table of a new server. Raises `UsageError` if it is unusable."""
    table = {key: value for key, value in values.items() if value}
    parsed = {key: MCP_SERVER_KEYS[snake_case(key)](value) for key, value in table.items()}
    problem = declaration_problem(name, parsed, config)
    if problem:
        raise UsageError(f"`{name}` could not be used: {problem}")
    return table


def create_server(declared_server: DeclaredServer, handlers: ClientHandlers, config: Config) -> McpServer:
    """Create a server. A project's server runs in a sandbox if there is one; the user's own servers do not."""
    spec = declared_server.spec
    if declared_server.owner == "project" and spec.command and config.sandbox != "off":
        folders = config.folders
        # The name is unique to the project, so that projects do not share a scratch folder.
        name = f"{spec.prefix}-{hashlib.sha256(os.fsencode(config.project_folder)).hexdigest()[:12]}"
        temp_folder, app_folders = folders.data / "mcp" / "tmp" / name, (folders.config, folders.data, folders.logs)
        spec = replace(
            spec, sandbox=Sandbox(config.project_folder, temp_folder, [], app_folders, (config.project_folder,))
        )
    return McpServer(spec, handlers, log_path(declared_server, config), login_path(declared_server, config))


def log_path(declared_server: DeclaredServer, config: Config) -> Path:
    """Return the log file for a server's standard error."""
    return config.folders.logs / "mcp" / f"{declared_server.spec.prefix}.log"


def login_path(declared_server: DeclaredServer, config: Config) -> Path:
    """Return the file with a server's login tokens. Each address has its own file, so that tokens are never sent to
    another address."""
    url_digest = hashlib.sha256(declared_server.spec.url.encode()).hexdigest()[:12]
    return config.folders.data / "mcp" / "logins" / f"{declared_server.spec.prefix}-{url_digest}.json"


def open_project_approvals(config: Config) -> ToolApprovals:
    """Return the tool approvals for this project's servers."""
    return ToolApprovals(config.folders.data / "mcp" / "approvals.json", config.project_folder)


def open_user_tool_pins(config: Config) -> ToolApprovals:
    """Return the pinned tool definitions of the user's own servers, shared by all projects."""
    return ToolApprovals(config.folders.data / "mcp" / "tools.json", Path())


@asynccontextmanager
async def run_server(
    declared_server: DeclaredServer, handlers: ClientHandlers, config: Config
) -> AsyncIterator[McpServer]:
    """Start a server, wait until it is ready or has failed, yield it, and close it afterwards."""
    server = create_server(declared_server, handlers, config)
    server.start()
    try:
        await server.wait_until_started()
        yield server
    finally:
        await server.close()


def write_server(path: Path, name: str, table: Mapping[str, object] | None) -> None:
    """Write a server's table, replacing any existing one; a `table` of None removes it. Raises `ConfigError`."""

    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: only needed to add or remove a server

        mcp = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        servers.pop(name, None)
        if table is not None:
            new_table = tomlkit.table()
            for key, value in table.items():
                new_table[key] = _fill_table(tomlkit.inline_table(), value) if isinstance(value, Mapping) else value
            new_table.add(tomlkit.nl())
            servers[name] = new_table
        _remove_empty_tables(document)

    def apply_expected(content: dict[str, Any]) -> None:
        servers = content.setdefault("mcp", {}).setdefault("servers", {})
        servers.pop(name, None)
        if table is not None:
            servers[name] = dict(table)
        _remove_empty_tables(content)

    edit_toml_file(path, edit, apply_expected, f"edit `[mcp.servers.{name}]` there by hand")


def _remove_empty_tables(content: dict[str, Any]) -> None:
    if not content["mcp"]["servers"]:
        content["mcp"].pop("servers")
    if not content["mcp"]:
        content.pop("mcp")


def _fill_table(table: MutableMapping[str, object], values: Mapping[str, object]) -> object:
    table.update(values)
    return table
