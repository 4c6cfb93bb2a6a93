"""The tool interface: `Tool`, `Workspace` and `Result`."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.cap import estimate_tokens_by_bytes
from ebbtide.tools.outputs.extent import MAX_OUTPUT_BYTES, Extent
from ebbtide.tools.outputs.new_problems import NewProblems
from ebbtide.tools.outputs.recall_results import FetchStoredContent, RecallQuery, RecallResult, SearchHistory
from ebbtide.tools.outputs.recall_scope import RecallScope
from ebbtide.tools.outputs.seen_files import SeenFiles
from ebbtide.tools.outputs.stored_content import StoredContent
from ebbtide.tools.process.jobs import BackgroundJobs
from ebbtide.tools.process.state import ProgramState
from ebbtide.tools.tool_traits import ToolTraits

if TYPE_CHECKING:  # for type checking only: tools that run commands import these themselves
    from ebbtide.tools.sandbox.network import NetworkPolicy
    from ebbtide.tools.sandbox.sandbox import Sandbox

Effect: TypeAlias = Literal["none", "read", "write", "run", "serve", "fetch"]
"""The strongest effect that a tool can have. `none`: affect only the session. `read`: read files. `write`: change
files. `run`: run programs. `serve`: call its MCP server. `fetch`: fetch from the web."""

Arguments: TypeAlias = Mapping[str, object]


class ToolError(Exception):
    """A failure that the model can fix. The message says what happened and what to do instead."""


@dataclass(frozen=True, slots=True)
class ImageData:
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attachment:
    """A document or media file that cannot be sent to a model as an image."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class LoggedOutput:
    """A program's output, stored in a log file."""

    path: Path
    start: int
    end: int
    """Offset after the last byte."""
    is_finished: bool
    """Whether nothing else needs the file. If so, the reader should delete it."""
    is_complete: bool = True
    """Whether the file contains everything printed up to `end`."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change that was made to a file."""

    path: Path
    old_content: bytes | None
    """The previous content; None if the file did not exist."""
    new_content: bytes | None
    """The new content; None if the file was deleted."""


@dataclass(frozen=True, slots=True)
class Result:
    """The output of a tool call."""

    text: str
    """The full output, unless `log` or `full_text` is set."""
    log: LoggedOutput | None = None
    """The program's output, if it is long or not plain text. `text` then only says how the program ended."""
    full_text: str | None = None
    """The text with all lines complete; None if no line of `text` was truncated."""
    images: tuple[ImageData, ...] = ()
    files: tuple[Attachment, ...] = ()
    """Attachments other than `images`. Readable documents are shown as text."""
    changed_files: tuple[Path, ...] = ()
    """Files that the call created, changed or deleted."""
    file_changes: tuple[AppliedChange, ...] = ()
    """The old and new contents of changed files, if the tool knows them."""
    has_failed: bool = False
    """Whether the call completed but reports a failure, such as a non-zero exit code."""
    extent: Extent | None = None
    """How much of the available content `text` shows, if the tool knows."""
    sandbox_block: str = ""
    """What the sandbox blocked, if the command failed because of it."""
    denied_access: str = ""
    """What the sandbox denied to an unapproved call that was only allowed to read. If set, the call must be approved
    and run again without this restriction."""
    program: ProgramState | None = None
    """State of the program that the call started or queried."""
    problems: NewProblems | None = None
    """New problems caused by the file changes, as reported by language servers. `text` mentions them too."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits for one call that reads a file."""

    max_bytes: int = 51_200
    max_line_chars: int = 2000
    """Maximum number of characters in a line; longer lines are truncated."""


async def no_user(question: str, options: tuple[str, ...]) -> str:
    raise ToolError("no user is present: decide yourself, and state your assumptions in your answer")


async def no_archive(ref: str) -> StoredContent:
    raise ToolError("nothing is stored: all outputs of this session are in the conversation in full")


async def no_fetch(ref: str, scope: RecallScope | None) -> StoredContent:
    return await no_archive(ref)


async def no_history(query: RecallQuery) -> RecallResult:
    raise ToolError("there is no history: this session cannot be searched")


async def no_web_search(query: str) -> str:
    raise ToolError("this session cannot search the web: the user can set a program in `web.search`")


def no_progress(text: str) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class ChangeSelection:
    """The user's choice among the file changes that the preview of a call shows."""

    preview: str
    """The preview that the user saw."""
    refused: frozenset[int]
    """Indexes of the refused changes, in the order of the preview."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that a session works in, and the state its tools share."""

    root: Path
    """The working folder, absolute and resolved. Relative paths are relative to it."""
    outputs_folder: Path
    """A folder private to this session, for the output of running programs."""
    started_at: float = field(default_factory=time.time)
    """Time at which the session began to work in this folder, in Unix seconds."""
    seen_files: SeenFiles = field(default_factory=SeenFiles)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    sandbox: "Sandbox | None" = None
    """The sandbox for commands; None to run them without one."""
    environment_variables: dict[str, str] = field(default_factory=dict)
    """Extra environment variables for commands."""
    network_policy: "NetworkPolicy | None" = None
    """The running call's network access inside the sandbox; None if not set."""
    max_output_bytes: int = MAX_OUTPUT_BYTES
    """Maximum number of bytes stored of one command's output."""
    read_limits: ReadLimits = ReadLimits()
    get_stored_content: Callable[[str], Awaitable[StoredContent]] = no_archive
    """Looks up a reference and returns the output or message that has left the context. Raises `ToolError`."""
    fetch_stored_content: FetchStoredContent = no_fetch
    """Like `get_stored_content`, limited to a scope."""
    search_history: SearchHistory = no_history
    """Searches the whole history. Raises `ToolError`."""
    estimate_tokens: Callable[[str], int] = estimate_tokens_by_bytes
    """Estimates the number of tokens in text."""
    on_progress: Callable[[str], None] = no_progress
    """Receives new output of the running call, for display."""
    call_id: str = ""
    """The id of the running call."""
    granted_paths: frozenset[str] | None = None
    """The resolved paths that the running call may use; None before approval."""
    is_read_only: bool = False
    """Whether the running call was approved as read-only."""
    runs_in_read_only_sandbox: bool = False
    """Whether the running call is treated as unsafe and runs in a read-only sandbox."""
    change_selection: ChangeSelection | None = None
    """Which of the running call's file changes the user accepted; None if all."""
    ask: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """Asks the user a question and returns the answer. Raises `ToolError` if no user is present."""
    ask_multiple: Callable[[str, tuple[str, ...]], Awaitable[str]] = no_user
    """Like `ask`, but several options may be chosen. The answer has one line per choice."""
    search_web: Callable[[str], Awaitable[str]] = no_web_search
    """Has the model's provider search the web for a query, and returns what was found. Raises `ToolError`."""
    get_deferred_tools: Callable[[], "Sequence[Tool]"] = tuple
    """Returns the tools that the model can call although their definitions are not sent."""


class Tool(Protocol):
    """One tool. `ebbtide.agent.calls.policy` decides whether a call may run; `run` only executes it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """The description for the model, from the `.md` file beside the tool."""

    @property
    def schema(self) -> Mapping[str, object]:
        """JSON Schema of the arguments, an `object`. Arguments are validated before `run`."""

    @property
    def effect(self) -> Effect: ...

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        """Return the subjects that permission rules match: a command line, absolute resolved paths, or hosts. Raises
        `ToolError`."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        """Execute the call. Raises `ToolError`. May be cancelled at any await, and must then leave no process
        running."""


@runtime_checkable
class SupportsPreview(Protocol):
    """A tool that can preview a call's changes."""

    def preview(self, arguments: Arguments, workspace: Workspace) -> str:
        """Return a unified diff of what the call would change. Raises `ToolError` if the call would fail."""


@runtime_checkable
class SupportsChangeSelection(Protocol):
    """A tool that can make only some of a call's file changes, see `Workspace.change_selection`."""

    def count_selectable_changes(self, arguments: Arguments, workspace: Workspace) -> int:
        """Return how many changes of the preview can be refused one by one; 0 if they cannot. Raises `ToolError`."""


@dataclass(frozen=True, slots=True)
class ReadOnlyAccess:
    """What a call reads if it is allowed to run as read-only."""

    tool: Literal["read", "grep"]
    """The read-only tool with equivalent access: `grep` if the call might show lines from files that it does not
    name."""
    paths: tuple[str, ...]
    """The files as absolute resolved paths."""
    secret_path: str = ""
    """The first path whose name suggests passwords or keys; empty if none does."""
    runs_in_read_only_sandbox: bool = False
    """Whether the call is treated as unsafe and must run in a read-only sandbox."""


@runtime_checkable
class SupportsReadOnly(Protocol):
    """A tool that can run some of its calls as read-only. If `Workspace.is_read_only` is set, the tool must itself
    ensure that the call only reads."""

    def read_only_access(self, arguments: Arguments, workspace: Workspace) -> ReadOnlyAccess | None:
        """Return what the call reads. None if it is not allowed to run as read-only. Raises `ToolError`."""


@runtime_checkable
class HasCallEffect(Protocol):
    """A tool whose actual effect depends on its arguments."""

    def effect_of(self, arguments: Arguments) -> Effect:
        """Return the strongest effect that this call can have. Raises `ToolError`."""


@runtime_checkable
class Deferrable(Protocol):
    """A tool whose definition can be deferred if there are many tools or if requests must stay small."""

    @property
    def kind(self) -> Literal["skill", "mcp", "rare"]:
        """The tool's origin: a skill, an MCP server, or the rarely used built-in tools."""


class BuiltinTool(Protocol):
    """The class of a built-in tool."""

    @property
    def name(self) -> str: ...

    @property
    def traits(self) -> ToolTraits: ...


class ArgumentlessTool(BuiltinTool, Protocol):
    """The class of a built-in tool that is created without arguments."""

    def __call__(self) -> Tool: ...


@dataclass(frozen=True, slots=True)
class ToolSupport:
    """What a session provides to its rarely needed tools."""

    cache_folder: Path | None = None
    """Folder for files that can be regenerated; None if nothing may be stored."""
    get_language_servers: Callable[[], object] | None = None
    """Returns the session's language servers without starting any; None if the session cannot have any."""


class RareTool(BuiltinTool, Protocol):
    """The class of a rarely needed built-in tool."""

    def for_session(self, support: ToolSupport, /) -> Tool: ...


def read_description(module_file: str) -> str:
    return Path(module_file).with_suffix(".md").read_text(encoding="utf-8").strip()
