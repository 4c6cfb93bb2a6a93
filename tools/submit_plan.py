"""The `submit_plan` tool: in plan mode, submits the model's plan for the user's approval. If there is no user, the plan
is the final answer."""

from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, no_user, read_description
from ebbtide.tools.call_arguments.schema import get_text, object_schema
from ebbtide.tools.tool_traits import ToolTraits, first_line, text_argument

PLAN_ACCEPTED = "the user accepted the plan: carry it out now"
MAX_PLAN_CHARS = 20_000
"""Maximum length of a plan in characters, so that a user can reasonably read it."""


class SubmitPlan:
    name = "submit_plan"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="propose_plan",
        acp_kind="think",
        get_subject=lambda arguments: first_line(text_argument(arguments, "plan").lstrip("# \n")),
        aliases="exit_plan_mode present_plan propose_plan plan_mode_respond",
        argument_aliases={"plan": "text markdown content response proposal"},
        claude_names=("ExitPlanMode",),
    )
    schema = object_schema({"plan": {"type": "string"}}, required=("plan",))

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        get_plan(arguments)
        return ()

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        get_plan(arguments)
        if workspace.ask is no_user:
            return Result("the plan was submitted as your answer")
        return Result(PLAN_ACCEPTED)


def get_plan(arguments: Arguments) -> str:
    """Get the submitted plan from the arguments. Raises `ToolError` if it is empty or too long."""
    plan = get_text(arguments, "plan", "")
    if not any(character.isprintable() and not character.isspace() for character in plan):
        raise ToolError("the plan is empty: write what you would change, where, and how you would check it")
    if len(plan) > MAX_PLAN_CHARS:
        raise ToolError(
            f"the plan has {len(plan):,} characters, more than the maximum of {MAX_PLAN_CHARS:,}: submit a shorter one"
        )
    return plan
