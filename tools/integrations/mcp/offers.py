"""The tools, resources and prompts of a server, and its state. Independent of the protocol: the connection executes
calls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from ebbtide.tools.base import Arguments, Attachment, Effect, ImageData, Result, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.integrations.mcp.spec import ServerSpec
from ebbtide.tools.integrations.mcp.texts import clean_text, one_line, with_escaped_chars
from ebbtide.tools.outputs.extent import pluralize, truncate
from ebbtide.tools.outputs.plain_text import printable_name

INSTRUCTIONS_NAME = "instructions for the model"
"""The name under which a server's instructions are approved. It cannot clash with a tool's name, because those contain
no spaces."""
MAX_INSTRUCTIONS_CHARS = 2000
"""Maximum number of characters of a server's instructions."""

ServerPhase: TypeAlias = Literal["starting", "ready", "failed", "needs_login", "disabled", "closed"]


class SessionExpiredError(ToolError):
    """Raised if the server rejected a call because it no longer knows the session. Nothing was executed."""


class LoginRequiredError(Exception):
    """Raised if the server requires a login. The message, if any, says how an attempt to log in ended."""


class PostNotSupportedError(ConnectionError):
    """Raised if the address responds like a server that supports only the older transport (SSE)."""


class Caller(Protocol):
    """Executes calls to a server's tools and resources."""

    @property
    def spec(self) -> ServerSpec: ...

    @property
    def state(self) -> "ServerState": ...

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """Call a tool and return its result. `name`: the server's own name for the tool. Raises `ToolError`."""

    async def read_resource(self, uri: str) -> Result:
        """Return the content of a resource. Raises `ToolError`."""


class _ServerTool:
    """What MCP tools have in common: they can be deferred, and permission rules match only their names."""

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
    """A tool that a server offers. Two tools are equal if they look the same to the model."""

    name: str
    """The name for the model: `mcp__SERVER__TOOL`."""
    original_name: str
    """The server's own name for the tool."""
    description: str
    schema: Mapping[str, object]
    """The schema in portable form."""
    caller: Caller = field(compare=False, repr=False)
    listed_schema: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    """The schema as the server listed it. This is what the user's approval applies to."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await self.caller.call(self.original_name, arguments, workspace.on_progress)


def instructions_tool(text: str, caller: Caller) -> McpTool | None:
    """Represent a server's instructions, sanitised and truncated, as a tool. None if there are none."""
    instructions = truncate(clean_text(text), MAX_INSTRUCTIONS_CHARS)
    return McpTool("", INSTRUCTIONS_NAME, instructions, {}, caller) if instructions else None


@dataclass(frozen=True, slots=True)
class ReadResourceTool(_ServerTool):
    """A tool that lists a server's resources or reads one of them. Its description does not name them, because
    resources may change but a description must not."""

    caller: Caller = field(repr=False)

    @property
    def name(self) -> str:
        return f"mcp__{self.caller.spec.prefix}__{self.original_name}"

    @property
    def original_name(self) -> str:
        return "read_resource"

    @property
    def description(self) -> str:
        label = self.caller.spec.label
        return f"Reads a resource of the server `{label}` by its URI. Without a URI it lists all resources."

    @property
    def schema(self) -> Mapping[str, object]:
        return object_schema({"uri": {"type": "string"}}, required=())

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        uri = get_text(arguments, "uri", "")
        return await self.caller.read_resource(uri) if uri else Result(self._resource_list())

    def _resource_list(self) -> str:
        """Return the server's resources and resource templates, one per line."""
        state = self.caller.state
        return "\n".join(resource.line for resource in (*state.resources, *state.templates)) or "there are no resources"


@dataclass(frozen=True, slots=True)
class McpResource:
    """A resource, or a resource template if its URI contains `{…}`."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None

    @property
    def line(self) -> str:
        size_text = pluralize(self.size, "byte") if self.size is not None else ""
        details = ", ".join(filter(None, (self.name, one_line(self.media_type), size_text)))
        suffix = f": {one_line(self.description)}" if self.description else ""
        return f"{printable_name(with_escaped_chars(self.uri))}  ({details}){suffix}"


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class McpPrompt:
    """A prompt that the user can send."""

    command: str
    """The slash command for the prompt, without the slash: `mcp__SERVER__PROMPT`."""
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """The arguments as they are typed after the command: `FILE [STYLE]`."""
        return " ".join(
            argument.name.upper() if argument.is_required else f"[{argument.name.upper()}]"
            for argument in self.arguments
        )


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: Literal["user", "assistant"]
    text: str
    images: tuple[ImageData, ...] = ()
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of a server and its last known lists. The lists are kept while the server is not ready."""

    phase: ServerPhase
    detail: str = ""
    """Why the server is not ready, in one line."""
    name: str = ""
    """The server's own name."""
    version: str = ""
    protocol: str = ""
    tools: tuple[McpTool, ...] = ()
    resources: tuple[McpResource, ...] = ()
    templates: tuple[McpResource, ...] = ()
    prompts: tuple[McpPrompt, ...] = ()
    notes: tuple[str, ...] = ()
    """One line about each entry that was omitted or needs the user's review."""
    instructions: "McpTool | None" = None
    """The server's instructions for models, represented as the description of a tool that cannot be called, so that
    they are approved and pinned like tools."""

    @property
    def approvable_tools(self) -> tuple[McpTool, ...]:
        """The tools that the user has to approve, including the instructions."""
        return self.tools if self.instructions is None else (self.instructions, *self.tools)
