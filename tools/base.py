"""What a tool is and what it is given. Tools know the workspace; they know no model, no session and no terminal."""

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
"""The most a tool can do: nothing outside the session, read files, change files, run programs, whatever the server does
that brought it, or ask a server of the web for something."""

Arguments: TypeAlias = Mapping[str, object]


class ToolError(Exception):
    """A failure that the model can mend. Its text says what happened and what to do instead."""


@dataclass(frozen=True, slots=True)
class Picture:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document, or a medium that is no picture for a model."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PrintedLog:
    """What a program printed, in a file."""

    path: Path
    start: int
    end: int
    """Behind the last byte that is meant."""
    is_finished: bool
    """Nothing else needs the file: whoever has taken what it holds removes it."""
    is_whole: bool = True
    """It holds all that was printed up to then."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change of a file that was made."""

    path: Path
    before: bytes | None
    """None when there was no file."""
    after: bytes | None
    """None when there is none any more."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave back."""

    text: str
    """All of it, unless one of the next two fields says otherwise."""
    log: PrintedLog | None = None
    """What a program printed, when that is long or no plain text; `text` then only says how the program ended."""
    uncut: str | None = None
    """The text with nothing left out of its lines, when `text` has some of them cut."""
    pictures: tuple[Picture, ...] = ()
    files: tuple[Attachment, ...] = ()
    """What came beside the text and the pictures. Documents that can be read are shown like text."""
    changed: tuple[Path, ...] = ()
    """Files that the call created, changed or deleted."""
    file_changes: tuple[AppliedChange, ...] = ()
    """What was in them before and is now, where the tool knows."""
    failed: bool = False
    """The call ran to its end and reports a failure, such as a command's exit code."""
    extent: Extent | None = None
    """How much of what there is stands in `text`, where the tool can say."""
    blocked: str = ""
    """What the sandbox kept from a command that failed."""
    program: ProgramState | None = None
    """How it stands with the program that the call was about, where it was about one."""
    problems: NewProblems | None = None
    """What its changes of files have brought, as far as somebody has said; it stands in `text`, too."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What one look at a file may show."""

    most_bytes: int = 51_200
    longest_line: int = 2000
    """Characters."""


async def no_user(question: str, options: tuple[str, ...]) -> str:
    raise ToolError("nobody is there to answer: decide yourself and say in your answer what you assumed")


async def no_archive(ref: str) -> StoredContent:
    raise ToolError("nothing is kept: the outputs of this session stand whole in the conversation")


async def no_fetch(ref: str, scope: Scope | None) -> StoredContent:
    return await no_archive(ref)


async def no_memory(asked: RecallQuery, told: Callable[[int, int], None]) -> RecallResult:
    raise ToolError("nothing is remembered: this session cannot be searched")


def no_progress(text: str) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that a session works in, and what its tools share."""

    root: Path
    """The working folder, absolute and resolved. Relative paths start here."""
    outputs: Path
    """A folder of this session's own, for what programs print while they run."""
    since: float = field(default_factory=time.time)
    """When work in it began, in Unix seconds."""
    seen: SeenFiles = field(default_factory=SeenFiles)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    sandbox: "Sandbox | None" = None
    """The boundary that commands run in; None where they run without one."""
    variables: dict[str, str] = field(default_factory=dict)
    """Of the environment of commands, besides what they have of the user's."""
    reach: "Reach | None" = None
    """What the running call may reach of the network from inside that; None where that was not said."""
    max_output_bytes: int = MAX_OUTPUT_BYTES
    """How much is kept of what one command prints."""
    reads: ReadLimits = ReadLimits()
    stored_content: Callable[[str], Awaitable[StoredContent]] = no_archive
    """Finds what a reference stands for, of outputs and messages that are not in view. Raises `ToolError`."""
    fetch: Fetch = no_fetch
    """The same, as far as a scope reaches."""
    look_up: LookUp = no_memory
    """Searches everything that was said. Raises `ToolError`."""
    measure: Callable[[str], int] = by_bytes
    """How many tokens a text takes, as the session estimates it."""
    progress: Callable[[str], None] = no_progress
    """Takes new output of a running call, for people to watch."""
    call: str = ""
    """The id of the running call."""
    granted: frozenset[str] | None = None
    """The resolved paths that the running call was allowed to use; None before that is decided."""
    read_only: bool = False
    """Whether the running call was allowed because it only looks."""
    ask: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """Puts a question to the user and returns the answer. Raises `ToolError` when nobody is there."""
    ask_for_several: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """The same where more than one of the options may be chosen: the answer has a line for each."""
    deferred_tools: Callable[[], "Sequence[Tool]"] = tuple
    """The tools that the model may call although it is not shown their definitions."""


class Tool(Protocol):
    """One tool. `ebbtide.agent.calls.policy` decides whether a call may run; `run` does what it says, nothing more."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What the model reads: one short text, from the `.md` file beside the tool."""

    @property
    def schema(self) -> Mapping[str, object]:
        """JSON Schema of the arguments, an `object`. Arguments are checked against it before `run`."""

    @property
    def effect(self) -> Effect: ...

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        """What permission rules look at: a command line, absolute resolved paths, or hosts. Raises `ToolError`."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        """Does the work. Raises `ToolError`; may be cancelled at any await, and then leaves no process behind."""


@runtime_checkable
class Previews(Protocol):
    """A tool that can say beforehand what a call would change."""

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        """A unified diff of what the call would do. Raises `ToolError` when it could not be done."""


@dataclass(frozen=True, slots=True)
class ReadOnlyAccess:
    """What a call shows that is proved to do nothing else."""

    tool: Literal["read", "grep"]
    """Of the tools that only read the one that shows as much: `grep` where lines come from files that are not named."""
    paths: tuple[str, ...]
    """Absolute resolved paths."""
    secret: str = ""
    """The first of them that by its name holds passwords or keys."""


@runtime_checkable
class ReadsOnly(Protocol):
    """A tool of which some calls only look, and which then runs them so that they do (`Workspace.read_only`)."""

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """None where a call may do more, or that is not proved. Raises `ToolError`."""


@runtime_checkable
class VariesEffect(Protocol):
    """A tool of which some calls do less than the most that it can do."""

    def effect_of(self, arguments: Arguments) -> Effect:
        """The most that a call can do. Raises `ToolError`."""


@runtime_checkable
class Deferrable(Protocol):
    """A tool whose definition may be held back while there are many, or is while that makes requests smaller."""

    @property
    def kind(self) -> Literal["skill", "mcp", "rare"]:
        """Who brought it: a skill or a server; or that it came with the program and is seldom needed."""


def read_description(module_file: str) -> str:
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()
