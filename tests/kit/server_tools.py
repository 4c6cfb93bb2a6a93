"""Tools as servers bring them: real ones that answer at once, many of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ebbtide.tools.base import Arguments, Effect, Result, Workspace
from ebbtide.tools.call_arguments.schema import object_schema

THINGS = (
    *("issue", "pull_request", "branch", "commit", "release", "milestone", "label", "workflow", "secret", "webhook"),
    *("page", "message", "channel", "reaction", "file", "folder", "comment", "calendar_event", "contact", "invoice"),
)
DEEDS = {"create": "Creates a new", "list": "Lists every", "delete": "Deletes one"}


@dataclass(frozen=True, slots=True)
class Served:
    """A tool that says with what it was called."""

    name: str
    description: str
    schema: Mapping[str, object] = field(
        default_factory=lambda: object_schema({"title": {"type": "string"}}, ("title",))
    )
    kind: Literal["skill", "mcp"] = "mcp"
    effect: Effect = "serve"

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result(f"{self.name} was called with {dict(arguments)}")


def served_tools() -> tuple[Served, ...]:
    """Sixty of them, from three servers, each with a description of some length."""
    servers = ("forge", "chat", "office")
    return tuple(
        Served(
            f"mcp__{servers[place % 3]}__{deed}_{thing}",
            f"{verb} {thing.replace('_', ' ')} on the server and tells what came of it. "
            "The caller needs the rights for that, and a second call with the same title changes nothing.",
        )
        for place, thing in enumerate(THINGS)
        for deed, verb in DEEDS.items()
    )
