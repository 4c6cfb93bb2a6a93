"""The `compact_context` tool: the model asks for compaction. The turn reads the request from the call's arguments and
compacts before the next request."""

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.schema import object_of


class CompactContext:
    name = "compact_context"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of({"focus": {"type": "string"}}, required=())

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result("the conversation is compacted before your next request; a note will say how much that freed")
