"""The `stream-json` lines other than session events, and the version of the format."""

from collections.abc import Mapping
from typing import TypeAlias

from ebbtide.agent.events.session import Event
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass
from ebbtide.version import VERSION

SCHEMA_VERSION = 1
"""Version of the format. It stays the same while events, fields and values are only added, and increases when one is
removed or changes its meaning."""


@dataclass(frozen=True, slots=True)
class StreamServer:
    """An MCP server."""

    name: str
    state: str
    """State when the session begins, such as `starting`, `ready`, `failed` or `disabled`."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first line. It describes the session that was opened."""

    schema_version: int
    """Version of this format."""
    version: str
    """Version of the program."""
    session: str
    model: str
    """`provider/name`."""
    mode: str
    """The permission mode."""
    sandbox: str
    """The kind of sandbox for commands; `off` if disabled, `none` if unavailable."""
    folder: str
    """The working folder."""
    tools: tuple[str, ...]
    """Tools that the model can call now. Tools from servers that are still starting are added in the first turn."""
    servers: tuple[StreamServer, ...] = ()
    commands: tuple[str, ...] = ()
    """The user's and the project's commands and skills, which a message can invoke as `/NAME`."""
    agents: tuple[str, ...] = ()
    """Sub-agents that can be given tasks."""


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """The permission mode was changed by an input line."""

    mode: str


@dataclass(frozen=True, slots=True)
class InputRefused:
    """An input line could not be processed. The run continues."""

    line: int
    """Line number, from 1."""
    reason: str


StreamEvent: TypeAlias = RunStarted | ModeChanged | InputRefused


@dataclass(frozen=True, slots=True)
class ControlDone:
    """A control request succeeded. Only formats with control requests send it."""

    request_id: str
    response: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ControlFailed:
    """A control request failed."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class HookCalled:
    """A client hook is called. Only formats with client hooks send it."""

    request_id: str
    callback: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class HookCallCancelled:
    """A client hook was called, but its answer is no longer needed."""

    request_id: str


OutputEvent: TypeAlias = Event | StreamEvent | ControlDone | ControlFailed | HookCalled | HookCallCancelled
"""Everything that an output format can receive during a run."""


def describe_run(session: Session, sandbox: str) -> RunStarted:
    """Build the first line of the output, which describes the session before its first turn."""
    servers = session.servers.statuses() if session.servers is not None else ()
    extensions = session.extensions.usable_by_user() if session.extensions is not None else ()
    return RunStarted(
        schema_version=SCHEMA_VERSION,
        version=VERSION,
        session=session.id,
        model=session.model,
        mode=session.mode,
        sandbox=sandbox,
        folder=str(session.working_folder),
        tools=session.tools,
        servers=tuple(StreamServer(server.name, server.phase) for server in servers),
        commands=tuple(extension.name for extension in extensions),
        agents=tuple(session.agents.descriptions) if session.agents is not None else (),
    )
