"""Servers one by one, apart from any session: how each stands, one started to look at it, one written into the user's
configuration file, in which comments, order and everything else stay as they are."""

from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agent.config.aliases import snake_case
from agent.config.options import SERVER_KEYS
from agent.config.toml_file import rewrite
from agent.config.values import Config
from agent.errors import UsageError
from agent.mcp.approvals import Approvals
from agent.mcp.declared import Declared, Owner, Unusable, declared_servers, problem_of
from agent.mcp.running import approvals_of, make_server
from tools.mcp.client_handlers import ClientHandlers
from tools.mcp.server import Server
from tools.redaction import redacted, without_options, without_password

Standing: TypeAlias = Literal["on", "off", "unusable", "not approved", "changed", "refused"]


@dataclass(frozen=True, slots=True)
class ServerRow:
    """How a server stands, without it being started."""

    name: str
    standing: Standing
    detail: str
    """Why it is not on."""
    owner: Owner
    source: str
    target: str
    """Its command or address as it is written."""
    ignored: tuple[str, ...] = ()
    """Keys of its entry that mean nothing here."""


def rows(config: Config, environment: Mapping[str, str]) -> tuple[ServerRow, ...]:
    """Every declared server; a file that declares none that can be read is a row without a name."""
    approvals = approvals_of(config)
    return tuple(_row(one, approvals) for one in declared_servers(config, environment))


def _row(one: Declared | Unusable, approvals: Approvals) -> ServerRow:
    if isinstance(one, Unusable):
        return ServerRow(one.name, "off" if one.is_off else "unusable", one.problem, one.owner, one.source, "")
    standing = standing_of(one, approvals)
    why = {"not approved": "the user has not approved it", "changed": "it has changed since it was approved"}
    target = redacted(" ".join(without_options(one.written.command)) or without_password(one.written.url), {})
    return ServerRow(one.name, standing, why.get(standing, ""), one.owner, one.source, target, one.ignored)


def standing_of(declared: Declared, approvals: Approvals) -> Standing:
    if declared.owner == "user":
        return "on"
    approval = approvals.of(declared.name, declared.digest)
    if approval is None:
        return "changed" if approvals.is_known(declared.name) else "not approved"
    return "on" if approval.verdict == "approved" else "refused"


def find_server(name: str, config: Config, environment: Mapping[str, str]) -> Declared:
    """The server of that name. Raises `UsageError` when there is none, or none that can be started."""
    found = declared_servers(config, environment)
    for one in found:
        if one.name == name:
            if isinstance(one, Unusable):
                raise UsageError(one.line)
            return one
    known = ", ".join(f"`{one.name}`" for one in found if one.name) or "none; `ebb mcp add` adds one"
    raise UsageError(f"there is no server `{name}`; there are {known}")


def table_for(name: str, given: Mapping[str, object], config: Config) -> dict[str, object]:
    """What is to be written of a server. Raises `UsageError` when it could not be used."""
    table = {key: value for key, value in given.items() if value}
    parsed = {key: SERVER_KEYS[snake_case(key)](value) for key, value in table.items()}
    problem = problem_of(name, parsed, config)
    if problem:
        raise UsageError(f"`{name}` could not be used: {problem}")
    return table


@asynccontextmanager
async def started(declared: Declared, handlers: ClientHandlers, config: Config) -> AsyncIterator[Server]:
    """The server, once it is known whether it can be used. It is closed in the end."""
    server = make_server(declared, handlers, config)
    server.start()
    try:
        await server.ready()
        yield server
    finally:
        await server.close()


def put_server(path: Path, name: str, table: Mapping[str, object]) -> None:
    """Writes what is said of a server in place of what was. Raises `ConfigError`."""
    _change(path, name, table)


def take_server(path: Path, name: str) -> None:
    """Removes what is said of a server. Raises `ConfigError`."""
    _change(path, name, None)


def _change(path: Path, name: str, table: Mapping[str, object] | None) -> None:
    def edit(document: dict[str, Any]) -> None:
        import tomlkit  # noqa: PLC0415  # deferred: only who adds or removes a server needs it

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
