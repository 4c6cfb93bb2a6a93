"""The `final_report` tool, with which the model submits its final answer and ends the turn."""

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.tool_traits import ToolTraits


class FinalReport:
    name = "final_report"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="give_report",
        argument_aliases={"report": "result answer text summary"},
    )
    schema = object_schema({"report": {"type": "string"}}, required=("report",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        if not get_text(arguments, "report").strip():
            raise ToolError("the report is empty: say what is done and what remains open")
        return Result("the report was submitted")
