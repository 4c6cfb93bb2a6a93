"""What a server offers, including its tools, and its state. Independent of the protocol: the connection executes
calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ebbtide.tools.base import Arguments, Attachment, Effect, Picture, Result, ToolError, Workspace
from ebbtide.tools.mcp.spec import ServerSpec
from ebbtide.tools.mcp.texts import clean, one_line, spelled_out
from ebbtide.tools.outputs.extent import pluralize, truncate
from ebbtide.tools.outputs.plain_text import printable
from ebbtide.tools.schema import object_of, text

INSTRUCTIONS = "instructions for the model"
"""The name under which instructions are approved. Tool names contain no blanks."""
MAX_INSTRUCTIONS_CHARS = 2000
"""Maximum number of characters in instructions."""

Phase: TypeAlias = Literal["starting", "ready", "failed", "needs_login", "disabled", "closed"]


class SessionOver(ToolError):
    """The server rejected the call because it no longer knows the session. Nothing was done."""


class NeedsLogin(Exception):
    """The server requires a login. The message, if any, says what happened to an attempt."""


class TakesNoPosts(ConnectionError):
    """The address responds like a server that only supports the transport before streamable HTTP."""


class Caller(Protocol):
    """The server that executes calls."""

    @property
    def spec(self) -> ServerSpec: ...

    @property
    def state(self) -> "ServerState": ...

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """Return the result of a tool call. `name` is the server's name of the tool. Raises `ToolError`."""

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""


class _ServerTool:
    """Common properties of MCP tools: they can be deferred, and permission rules match only their names."""

    __slots__ = ()

    @property
    def effect(self) -> Effect:
        return "serve"

    @property
    def kind(self) -> Literal["skill", "mcp"]:
        return "mcp"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class McpTool(_ServerTool):
    """A tool that a server offers. Two are equal if the model would see no difference."""

    name: str
    """`mcp__SERVER__TOOL`."""
    original: str
    """The server's own name of the tool."""
    description: str
    schema: Mapping[str, object]
    """In portable form."""
    caller: Caller = field(compare=False, repr=False)
    as_listed: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    """The schema as listed by the server, which the user's approval refers to."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await self.caller.call(self.original, arguments, workspace.progress)


def instructions_of(text: str, caller: Caller) -> McpTool | None:
    """Return a server's instructions, sanitised and truncated, or None if there are none."""
    said = truncate(clean(text), MAX_INSTRUCTIONS_CHARS)
    return McpTool("", INSTRUCTIONS, said, {}, caller) if said else None


@dataclass(frozen=True, slots=True)
class ReadResource(_ServerTool):
    """A tool that lists the resources of a server and reads one. Its description does not name them: they change, and
    it must stay the same."""

    caller: Caller = field(repr=False)

    @property
    def name(self) -> str:
        return f"mcp__{self.caller.spec.prefix}__{self.original}"

    @property
    def original(self) -> str:
        return "read_resource"

    @property
    def description(self) -> str:
        label = self.caller.spec.label
        return f"Reads a resource of the server `{label}` by its URI. Without a URI it lists the resources there are."

    @property
    def schema(self) -> Mapping[str, object]:
        return object_of({"uri": {"type": "string"}}, required=())

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        uri = text(arguments, "uri", "")
        return await self.caller.read_resource(uri) if uri else Result(self._resource_list())

    def _resource_list(self) -> str:
        """Return the server's resources and resource templates, one per line."""
        state = self.caller.state
        return "\n".join(each.line for each in (*state.resources, *state.templates)) or "there are no resources"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource, or a resource template if its URI contains `{…}`."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None

    @property
    def line(self) -> str:
        size = pluralize(self.size, "byte") if self.size is not None else ""
        about = ", ".join(filter(None, (self.name, one_line(self.media_type), size)))
        said = f": {one_line(self.description)}" if self.description else ""
        return f"{printable(spelled_out(self.uri))}  ({about}){said}"


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt that the user can send."""

    command: str
    """Its command without the slash: `mcp__SERVER__PROMPT`."""
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """The arguments as written after the command: `FILE [STYLE]`."""
        return " ".join(each.name.upper() if each.required else f"[{each.name.upper()}]" for each in self.arguments)


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[Picture, ...] = ()
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server and its last known lists, which are kept while it is not ready."""

    phase: Phase
    detail: str = ""
    """Why it is not ready, in one line."""
    name: str = ""
    """The server's own name."""
    version: str = ""
    protocol: str = ""
    tools: tuple[McpTool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[Resource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    notes: tuple[str, ...] = ()
    """One line for everything that was omitted or is noteworthy."""
    instructions: "McpTool | None" = None
    """The server's instructions for models, as the description of a tool that cannot be called, so that they are
    approved and pinned like tools."""

    @property
    def approvable(self) -> tuple[McpTool, ...]:
        """Everything that the user has to approve."""
        return self.tools if self.instructions is None else (self.instructions, *self.tools)
