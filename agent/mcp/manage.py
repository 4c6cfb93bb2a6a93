"""Servers one by one, apart from any session: how each stands, and one started to look at it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.config.aliases import snake_case
from agent.config.options import SERVER_KEYS
from agent.config.values import Config
from agent.errors import UsageError
from agent.mcp.approvals import Approvals
from agent.mcp.declared import Declared, Owner, Unusable, declared_servers, problem_of
from agent.mcp.running import approvals_of, make_server
from tools.mcp.desk import ClientHandlers
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
async def started(declared: Declared, desk: ClientHandlers, config: Config) -> AsyncIterator[Server]:
    """The server, once it is known whether it can be used. It is closed in the end."""
    server = make_server(declared, desk, config)
    server.start()
    try:
        await server.ready()
        yield server
    finally:
        await server.close()
