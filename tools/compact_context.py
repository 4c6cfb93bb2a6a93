"""The `compact_context` tool, with which the model asks for compaction. The turn reads the call's arguments, and
compacts before it sends the next request."""

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.tool_traits import ToolTraits


class CompactContext:
    name = "compact_context"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="request_compaction",
        small_window_policy="optional",
    )
    schema = object_schema({"focus": {"type": "string"}}, required=())

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        return Result("the conversation is compacted before your next request; a note will say how much that freed")
