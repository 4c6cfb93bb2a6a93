"""What a server offers, its tools among it, and how it stands. No protocol is known here: whoever holds the connection
runs the calls."""

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
"""Under which name they are approved: no name of a tool has blanks."""
MAX_INSTRUCTIONS_CHARS = 2000
"""Characters of them."""

Phase: TypeAlias = Literal["starting", "ready", "failed", "needs_login", "disabled", "closed"]


class SessionOver(ToolError):
    """The server did not take the call, because it knows nothing of us any more. Nothing was done."""


class NeedsLogin(Exception):
    """The server wants its user to log in first. Its text says what has become of that, when there is something."""


class TakesNoPosts(ConnectionError):
    """The address answers as servers do that speak only the transport from before streamable HTTP."""


class Caller(Protocol):
    """The server that calls go to."""

    @property
    def spec(self) -> ServerSpec: ...

    @property
    def state(self) -> "ServerState": ...

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """What a tool gave back. `name` is the server's own name of it. Raises `ToolError`."""

    async def read_resource(self, uri: str) -> Result:
        """What is in a resource. Raises `ToolError`."""


class _ServerTool:
    """It can be held back, and permission rules look at its name alone."""

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
    """A tool that a server offers. Two are equal when the model would see no difference."""

    name: str
    """`mcp__SERVER__TOOL`."""
    original: str
    """The server's own name of the tool."""
    description: str
    schema: Mapping[str, object]
    """In the form that every provider takes."""
    caller: Caller = field(compare=False, repr=False)
    as_listed: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    """The schema as the server wrote it, by which the user's approval knows the tool again."""

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await self.caller.call(self.original, arguments, workspace.progress)


def instructions_of(text: str, caller: Caller) -> McpTool | None:
    """What a server says of itself, cleaned and cut; None where it says nothing."""
    said = truncate(clean(text), MAX_INSTRUCTIONS_CHARS)
    return McpTool("", INSTRUCTIONS, said, {}, caller) if said else None


@dataclass(frozen=True, slots=True)
class ReadResource(_ServerTool):
    """A tool for the resources of one server: it lists them, and reads one. Its text does not say which there are: they
    change, and it must not."""

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
        """The resources of the server and the patterns of their addresses, a line each."""
        state = self.caller.state
        return "\n".join(each.line for each in (*state.resources, *state.templates)) or "there are no resources"


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that can be read by its address. With `{…}` in the address, it is a pattern of such addresses."""

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
    """A text that a server has ready for the user to send."""

    command: str
    """What stands for it, without a slash: `mcp__SERVER__PROMPT`."""
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def usage(self) -> str:
        """Its arguments as they are written behind the command: `FILE [STYLE]`."""
        return " ".join(each.name.upper() if each.required else f"[{each.name.upper()}]" for each in self.arguments)


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[Picture, ...] = ()
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """How a server stands, and what it offered last, also when it is not ready now."""

    phase: Phase
    detail: str = ""
    """One line: why it is not ready."""
    name: str = ""
    """What the server calls itself."""
    version: str = ""
    protocol: str = ""
    tools: tuple[McpTool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[Resource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    notes: tuple[str, ...] = ()
    """A line for everything that was left out or is remarkable."""
    instructions: "McpTool | None" = None
    """What it wants models to know of it, as the description of a tool that nobody can call: it is approved and pinned
    as tools are."""

    @property
    def approvable(self) -> tuple[McpTool, ...]:
        """All that the user approves."""
        return self.tools if self.instructions is None else (self.instructions, *self.tools)
