"""What can be seen of a server from outside, as plain values."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tools.base import Attached, Picture
from tools.mcp.tool import McpTool

Phase: TypeAlias = Literal["starting", "ready", "failed", "needs_login", "disabled", "closed"]


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that can be read by its address. With `{…}` in the address, it is a pattern of such addresses."""

    uri: str
    name: str
    description: str = ""
    media_type: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A text that a server has ready for the user to send."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptMessage:
    role: Literal["user", "assistant"]
    text: str
    pictures: tuple[Picture, ...] = ()
    files: tuple[Attached, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerListing:
    """What a server offers."""

    tools: tuple[McpTool, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[Resource, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    notes: tuple[str, ...] = ()
    """A line for everything that was left out or is remarkable."""


@dataclass(frozen=True, slots=True)
class ServerState:
    phase: Phase
    detail: str = ""
    """One line: why it is not ready."""
    listing: ServerListing = ServerListing()
    """What it offered last, also when it is not ready now."""
    name: str = ""
    """What the server calls itself."""
    version: str = ""
    protocol: str = ""
    instructions: str = ""

    @property
    def tools(self) -> tuple[McpTool, ...]:
        return self.listing.tools

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self.listing.resources

    @property
    def prompts(self) -> tuple[ServerPrompt, ...]:
        return self.listing.prompts
