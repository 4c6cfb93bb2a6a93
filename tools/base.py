"""The tool interface: `Tool`, `Workspace` and `Result`. Tools know nothing about models, sessions or front ends."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.cap import by_bytes
from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES, Extent
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.outputs.recall_scope import Scope
from ebbtide.tools.outputs.recalled import Fetch, LookUp, RecallQuery, RecallResult
from ebbtide.tools.outputs.stored import StoredContent
from ebbtide.tools.process.jobs import BackgroundJobs
from ebbtide.tools.process.state import ProgramState
from ebbtide.tools.seen_files import SeenFiles

if TYPE_CHECKING:  # types only: who runs a command pays for it
    from ebbtide.tools.sandbox.network import Reach
    from ebbtide.tools.sandbox.sandbox import Sandbox

Effect: TypeAlias = Literal["none", "read", "write", "run", "serve", "fetch"]
"""The most a tool can do: nothing outside the session, read files, change files, run programs, call the MCP server that
provides the tool, or fetch from the web."""

Arguments: TypeAlias = Mapping[str, object]


class ToolError(Exception):
    """A failure that the model can fix. The message says what happened and what to do instead."""


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document or media file that cannot be sent to a model as a picture."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PrintedLog:
    """A program's output, in a file."""

    path: Path
    start: int
    end: int
    """Offset just past the last byte."""
    is_finished: bool
    """Whether nothing else needs the file. The reader then deletes it."""
    is_whole: bool = True
    """Whether the file has everything printed up to `end`."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was made to a file."""

    path: Path
    before: bytes | None
    """None if the file did not exist."""
    after: bytes | None
    """None if the file was deleted."""


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a tool call."""

    text: str
    """The whole output, unless `log` or `uncut` is set."""
    log: PrintedLog | None = None
    """The program's output if it is long or not plain text. `text` then only says how the program ended."""
    uncut: str | None = None
    """The text with its lines uncut, if `text` has shortened lines."""
    pictures: tuple[Picture, ...] = ()
    files: tuple[Attachment, ...] = ()
    """Further files in the output. Readable documents are shown as text."""
    changed: tuple[Path, ...] = ()
    """Files that the call created, changed or deleted."""
    file_changes: tuple[AppliedChange, ...] = ()
    """Their contents before and after, where the tool knows them."""
    failed: bool = False
    """The call completed but reports a failure, such as a non-zero exit code."""
    extent: Extent | None = None
    """How much of the whole `text` shows, where the tool knows."""
    blocked: str = ""
    """What the sandbox blocked, for a command that failed."""
    program: ProgramState | None = None
    """State of the program that the call ran or asked about."""
    problems: NewProblems | None = None
    """New problems that the file changes caused, as reported by language servers. They are also in `text`."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for one call that reads a file."""

    most_bytes: int = 51_200
    longest_line: int = 2000
    """In characters."""


async def no_user(question: str, options: tuple[str, ...]) -> str:
    raise ToolError("no user is present: decide yourself, and state your assumptions in your answer")


async def no_archive(ref: str) -> StoredContent:
    raise ToolError("nothing is stored: the outputs of this session are complete in the conversation")


async def no_fetch(ref: str, scope: Scope | None) -> StoredContent:
    return await no_archive(ref)


async def no_memory(asked: RecallQuery, told: Callable[[int, int], None]) -> RecallResult:
    raise ToolError("there is no history: this session cannot be searched")


def no_progress(text: str) -> None:
    """Discard progress."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that a session works in, and the state its tools share."""

    root: Path
    """The working folder, absolute and resolved. Relative paths are relative to it."""
    outputs: Path
    """A folder private to this session, for the output of running programs."""
    since: float = field(default_factory=time.time)
    """Start time of the session's work here, in Unix seconds."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    sandbox: "Sandbox | None" = None
    """The sandbox that commands run in, or None to run them without one."""
    variables: dict[str, str] = field(default_factory=dict)
    """Extra environment variables for commands."""
    reach: "Reach | None" = None
    """Network access of the running call from inside the sandbox, or None if not set."""
    max_output_bytes: int = MAX_OUTPUT_BYTES
    """Maximum number of bytes stored of one command's output."""
    reads: ReadLimits = ReadLimits()
    stored_content: Callable[[str], Awaitable[StoredContent]] = no_archive
    """Return the content behind a reference to an output or message that left the context. Raises `ToolError`."""
    fetch: Fetch = no_fetch
    """Like `stored_content`, limited to a scope."""
    look_up: LookUp = no_memory
    """Search the whole history. Raises `ToolError`."""
    measure: Callable[[str], int] = by_bytes
    """Estimate the number of tokens in a text."""
    progress: Callable[[str], None] = no_progress
    """Receives new output of a running call, for display."""
    call: str = ""
    """The id of the running call."""
    granted: frozenset[str] | None = None
    """The resolved paths that the running call may use, or None before approval."""
    read_only: bool = False
    """Whether the running call was approved as read-only."""
    ask: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """Ask the user a question and return the answer. Raises `ToolError` if no user is present."""
    ask_for_several: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """Like `ask`, but several options may be chosen. The answer has one line per choice."""
    deferred_tools: Callable[[], "Sequence[Tool]"] = tuple
    """The tools that the model may call although their definitions are not sent."""


class Tool(Protocol):
    """One tool. `ebbtide.agent.calls.policy` decides whether a call may run; `run` only executes it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """The description the model reads, from the `.md` file beside the tool."""

    @property
    def schema(self) -> Mapping[str, object]:
        """JSON Schema of the arguments, an `object`. Arguments are validated before `run`."""

    @property
    def effect(self) -> Effect: ...

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        """Return the subjects of permission rules: a command line, absolute resolved paths or hosts. Raises
        `ToolError`."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        """Execute the call. Raises `ToolError`. May be cancelled at any await and then leaves no process running."""


@runtime_checkable
class Previews(Protocol):
    """A tool that can preview the changes of a call."""

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        """Return a unified diff of what the call would change. Raises `ToolError` if the call would fail."""


@dataclass(frozen=True, slots=True)
class ReadOnlyAccess:
    """What a call reads, if it is proved to be read-only."""

    tool: Literal["read", "grep"]
    """The read-only tool that shows as much: `grep` if lines come from files that are not named."""
    paths: tuple[str, ...]
    """Absolute resolved paths."""
    secret: str = ""
    """The first path whose name suggests passwords or keys."""


@runtime_checkable
class ReadsOnly(Protocol):
    """A tool some of whose calls are read-only. It enforces that for calls with `Workspace.read_only`."""

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """Return what the call reads, or None if it is not proved to be read-only. Raises `ToolError`."""


@runtime_checkable
class VariesEffect(Protocol):
    """A tool some of whose calls do less than its `effect`."""

    def effect_of(self, arguments: Arguments) -> Effect:
        """Return the most that this call can do. Raises `ToolError`."""


@runtime_checkable
class Deferrable(Protocol):
    """A tool whose definition may be deferred if there are many tools or if that makes requests smaller."""

    @property
    def kind(self) -> Literal["skill", "mcp", "rare"]:
        """Where the tool comes from: a skill, an MCP server, or a rarely used built-in."""


def read_description(module_file: str) -> str:
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()
