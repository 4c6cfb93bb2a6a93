"""The `call_tool` tool, which calls another tool by name. Such a call is normally replaced with the call inside it. The
tool itself only runs, and fails, if the other tool must be called directly."""

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.tool_traits import ToolTraits


class CallTool:
    name = "call_tool"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="call_deferred_tool",
        small_window_policy="always",
    )
    schema = object_schema(
        {"name": {"type": "string"}, "arguments": {"type": "object"}}, required=("name", "arguments")
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        name = get_text(arguments, "name")
        raise ToolError(f"`{name}` is in your list of tools: call it by its own name, without `call_tool`")
