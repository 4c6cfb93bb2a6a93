"""A tool of a server, as the model and the permission rules see it. It knows no protocol: whoever holds the connection
runs the call."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol

from tools.base import Arguments, Effect, Result, ToolError, Workspace
from tools.lazy import dataclass


class ServerTool:
    """A tool that came with a server: it can be held back, and permission rules look at its name alone."""

    __slots__ = ()

    @property
    def effect(self) -> Effect:
        return "serve"

    @property
    def kind(self) -> Literal["skill", "mcp"]:
        return "mcp"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()


class SessionOver(ToolError):
    """The server did not take the call, because it knows nothing of us any more. Nothing was done."""


class Caller(Protocol):
    """Runs calls of one server's tools."""

    async def call(self, name: str, arguments: Arguments, progress: Callable[[str], None]) -> Result:
        """What the tool gave back. `name` is the server's own name of the tool. Raises `ToolError`."""
        ...


@dataclass(frozen=True, slots=True)
class McpTool(ServerTool):
    """A tool that a server offers. Two are equal when the model would see no difference."""

    name: str
    """`mcp__SERVER__TOOL`."""
    server: str
    original: str
    """The server's own name of the tool."""
    description: str
    schema: Mapping[str, object]
    caller: Caller = field(compare=False, repr=False)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return await self.caller.call(self.original, arguments, workspace.progress)
