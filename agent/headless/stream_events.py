"""What `stream-json` prints besides the events of a session, and the version of all of it."""

from collections.abc import Mapping
from typing import TypeAlias

from ebbtide.agent.events.session import Event
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.version import VERSION

SCHEMA_VERSION = 1
"""It stays while only events, fields and values are added. It counts up when one goes or means something else."""


@dataclass(frozen=True, slots=True)
class StreamServer:
    """A server of tools."""

    name: str
    state: str
    """How it stands while the session begins: `starting`, `ready`, `failed`, `disabled`, or another."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The first line: what the session is that was opened."""

    schema_version: int
    """Of these lines."""
    version: str
    """Of the program."""
    session: str
    model: str
    """`provider/name`."""
    mode: str
    """The permission mode."""
    sandbox: str
    """What holds commands: a kind of sandbox, `none` or `off`."""
    folder: str
    """The working folder."""
    tools: tuple[str, ...]
    """What the model may call now. Tools of servers that are still starting come with the first turn."""
    servers: tuple[StreamServer, ...] = ()
    commands: tuple[str, ...] = ()
    """Commands and skills of the user and the project, which a message may call as `/NAME`."""
    agents: tuple[str, ...] = ()
    """What may be sent off with a task."""


@dataclass(frozen=True, slots=True)
class ModeChanged:
    """What may run without a question is now another, as a line of the input has wanted."""

    mode: str


@dataclass(frozen=True, slots=True)
class InputRefused:
    """A line of the input says nothing that can be done. The run goes on."""

    line: int
    """Counted from 1."""
    reason: str


StreamEvent: TypeAlias = RunStarted | ModeChanged | InputRefused


@dataclass(frozen=True, slots=True)
class ControlDone:
    """A control request of a program is done, which it is told in the format that has such requests."""

    request_id: str
    response: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ControlFailed:
    """One that is not done, and why."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class HookCalled:
    """A hook of the program is asked, in the format that has such hooks."""

    request_id: str
    callback: str
    payload: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class HookLeft:
    """Its answer is not waited for any more."""

    request_id: str


OutputEvent: TypeAlias = Event | StreamEvent | ControlDone | ControlFailed | HookCalled | HookLeft
"""What an output is told of a run while it goes on."""


def run_started(session: Session, sandbox: str) -> RunStarted:
    """How a session stands before its first turn."""
    servers = session.servers.statuses() if session.servers is not None else ()
    named = session.extensions.usable() if session.extensions is not None else ()
    return RunStarted(
        schema_version=SCHEMA_VERSION,
        version=VERSION,
        session=session.id,
        model=session.model,
        mode=session.mode,
        sandbox=sandbox,
        folder=str(session.root),
        tools=session.tools,
        servers=tuple(StreamServer(server.name, server.state.phase) for server in servers),
        commands=tuple(one.name for one in named),
        agents=tuple(session.agents.descriptions) if session.agents is not None else (),
    )
