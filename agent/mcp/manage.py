"""Manages MCP servers outside sessions: lists them, starts one for inspection, and edits the user's configuration file
while preserving comments, order and everything else."""

import hashlib
import os
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ebbtide.agent.config.aliases import snake_case
from ebbtide.agent.config.table_keys import SERVER_KEYS
from ebbtide.agent.config.toml_file import rewrite
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import UsageError
from ebbtide.agent.extensions.trust import FolderTrust, Standing
from ebbtide.agent.mcp.approvals import Approvals, item_of
from ebbtide.agent.mcp.declarations import DeclaredServer, Owner, UnusableServer, declared_servers, problem_of
from ebbtide.tools.mcp.client_handlers import ClientHandlers
from ebbtide.tools.mcp.server import Server
from ebbtide.tools.sandbox.sandbox import Sandbox
from ebbtide.tools.secrets.redaction import redact_text, without_options, without_password


@dataclass(frozen=True, slots=True)
class ServerRow:
    """The state of a server that is not started."""

    name: str
    standing: Standing | Literal["off", "unusable"]
    detail: str
    """Why it is not on."""
    owner: Owner
    source: str
    target: str
    """Its command or address as written."""
    ignored: tuple[str, ...] = ()
    """Unsupported keys of its entry."""


def rows(config: Config, environment: Mapping[str, str]) -> tuple[ServerRow, ...]:
    """Return all declared servers; a file without readable servers is a row without a name."""
    trust = FolderTrust(config)
    return tuple(_row(one, trust) for one in declared_servers(config, environment))


def _row(one: DeclaredServer | UnusableServer, trust: FolderTrust) -> ServerRow:
    if isinstance(one, UnusableServer):
        return ServerRow(one.name, "off" if one.is_off else "unusable", one.problem, one.owner, one.source, "")
    standing = trust.standing(item_of(one))
    why = {"not approved": "the user has not approved it", "changed": "it has changed since it was approved"}
    target = redact_text(" ".join(without_options(one.written.command)) or without_password(one.written.url), {})
    return ServerRow(one.name, standing, why.get(standing, ""), one.owner, one.source, target, one.ignored)


def find_server(name: str, config: Config, environment: Mapping[str, str]) -> DeclaredServer:
    """Return the server of that name. Raises `UsageError` if there is none, or if it cannot be started."""
    found = declared_servers(config, environment)
    for one in found:
        if one.name == name:
            if isinstance(one, UnusableServer):
                raise UsageError(one.line)
            return one
    known = ", ".join(f"`{one.name}`" for one in found if one.name) or "none; `ebb mcp add` adds one"
    raise UsageError(f"unknown server `{name}`; configured: {known}")


def table_for(name: str, given: Mapping[str, object], config: Config) -> dict[str, object]:
    """Validate the table of a new server. Raises `UsageError` if it is unusable."""
    table = {key: value for key, value in given.items() if value}
    parsed = {key: SERVER_KEYS[snake_case(key)](value) for key, value in table.items()}
    problem = problem_of(name, parsed, config)
    if problem:
        raise UsageError(f"`{name}` could not be used: {problem}")
    return table


def make_server(declared: DeclaredServer, handlers: ClientHandlers, config: Config) -> Server:
    """Create a server. A project's server runs in a sandbox if there is one; the user's own do not."""
    spec = declared.spec
    if declared.owner == "project" and spec.command and config.sandbox != "off":
        folders = config.folders
        # The name is unique to the project, so that projects share no scratch folder.
        name = f"{spec.prefix}-{hashlib.sha256(os.fsencode(config.project)).hexdigest()[:12]}"
        scratch, ours = folders.data / "mcp" / "tmp" / name, (folders.config, folders.data, folders.logs)
        spec = replace(spec, sandbox=Sandbox(config.project, scratch, [], ours, (config.project,)))
    return Server(spec, handlers, log_of(declared, config), login_of(declared, config))


def log_of(declared: DeclaredServer, config: Config) -> Path:
    """The log file for a server's standard error."""
    return config.folders.logs / "mcp" / f"{declared.spec.prefix}.log"


def login_of(declared: DeclaredServer, config: Config) -> Path:
    """The file with the tokens of a login. Each address has its own, since tokens must not be sent to another."""
    address = hashlib.sha256(declared.spec.url.encode()).hexdigest()[:12]
    return config.folders.data / "mcp" / "logins" / f"{declared.spec.prefix}-{address}.json"


def approvals_of(config: Config) -> Approvals:
    """The approved tools of this project's servers."""
    return Approvals(config.folders.data / "mcp" / "approvals.json", config.project)


def pins_of(config: Config) -> Approvals:
    """The pinned tools of the user's own servers, shared by all projects."""
    return Approvals(config.folders.data / "mcp" / "tools.json", Path())


@asynccontextmanager
async def running_server(declared: DeclaredServer, handlers: ClientHandlers, config: Config) -> AsyncIterator[Server]:
    """Start a server, wait until it is ready or has failed, and close it at the end."""
    server = make_server(declared, handlers, config)
    server.start()
    try:
        await server.ready()
        yield server
    finally:
        await server.close()


def write_server(path: Path, name: str, table: Mapping[str, object] | None) -> None:
    """Write a server's table in place of the old one; None removes it. Raises `ConfigError`."""

    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: only needed to add or remove a server

        mcp = document.setdefault("mcp", tomlkit.table(is_super_table=True))
        servers = mcp.setdefault("servers", tomlkit.table(is_super_table=True))
        servers.pop(name, None)
        if table is not None:
            added = tomlkit.table()
            for key, value in table.items():
                added[key] = _in_line(tomlkit.inline_table(), value) if isinstance(value, Mapping) else value
            added.add(tomlkit.nl())
            servers[name] = added
        _without_empty(document)

    def expected(content: dict[str, Any]) -> None:
        servers = content.setdefault("mcp", {}).setdefault("servers", {})
        servers.pop(name, None)
        if table is not None:
            servers[name] = dict(table)
        _without_empty(content)

    rewrite(path, edit, expected, f"edit `[mcp.servers.{name}]` there by hand")


def _without_empty(content: dict[str, Any]) -> None:
    if not content["mcp"]["servers"]:
        content["mcp"].pop("servers")
    if not content["mcp"]:
        content.pop("mcp")


def _in_line(table: MutableMapping[str, object], values: Mapping[str, object]) -> object:
    table.update(values)
    return table
