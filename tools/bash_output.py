"""The `bash_output` tool: shows a background job's output since the last call."""

from ebbtide.tools import command_runs
from ebbtide.tools.base import Arguments, Effect, Result, ToolError, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import (
    JOB_ARGUMENTS,
    TERMINAL_INPUT_ARGUMENTS,
    TERMINAL_INPUT_TOOLS,
    convert_to_seconds,
    is_terminal_input_call,
    pop_argument,
)
from ebbtide.tools.call_arguments.schema import get_number, object_schema
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, job_argument

MAX_WAIT_S = 60


def _accepts_alias_call(called_name: str, arguments: Arguments) -> bool:
    return called_name in TERMINAL_INPUT_TOOLS and not is_terminal_input_call(called_name, arguments)


def _adapt_arguments(arguments: dict[str, object], called_name: str, root: str) -> None:
    if called_name in TERMINAL_INPUT_TOOLS:
        pop_argument(arguments, *TERMINAL_INPUT_ARGUMENTS)  # remove arguments for typing
    convert_to_seconds(arguments, "wait")
    if not arguments.get("job"):
        explanation = "`bash` with `background` starts a job; any other command returns its output directly"
        raise ToolError(f"`bash_output` shows a job's output: name the job as `job`. {explanation}")


class BashOutput:
    name = "bash_output"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="read_job",
        output_content="program",
        acp_kind="read",
        get_subject=job_argument,
        aliases="get_terminal_output task_output shell_output command_status",
        accepts_alias_call=_accepts_alias_call,
        argument_aliases={"job": f"{JOB_ARGUMENTS} command cmd", "wait": "timeout"},
        adapt_arguments=_adapt_arguments,
        clamped_arguments=("wait",),
        claude_names=("BashOutput", "TaskOutput"),
        claude_arguments={"job": "bash_id"},
        small_window_policy="usually",
        short_form=ShortForm("New output of a command that continues as a job, such as `job-1`.", ("job", "wait")),
    )
    schema = object_schema(
        {
            "job": {"type": "string"},
            "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "description": "seconds"},
        },
        required=("job",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (command_runs.jobs.get_job(arguments, workspace).command,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        job = command_runs.jobs.get_job(arguments, workspace)
        await job.program.wait_for_output(get_number(arguments, "wait", 0), job.returned_bytes)
        return command_runs.jobs.job_update_result(job)
