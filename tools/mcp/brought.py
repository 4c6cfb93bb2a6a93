"""What all tools of servers have in common, whatever else they are."""

from typing import Literal

from tools.base import Arguments, Effect, Workspace


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
