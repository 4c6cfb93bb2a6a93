"""The `bash_kill` tool: ends a background job."""

from dataclasses import replace

from ebbtide.tools import command_runs
from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.call_arguments.foreign_calls import JOB_ARGUMENTS
from ebbtide.tools.call_arguments.schema import object_schema
from ebbtide.tools.tool_traits import ShortForm, ToolTraits, job_argument


class BashKill:
    name = "bash_kill"
    description = read_description(__file__)
    effect: Effect = "none"
    traits = ToolTraits(
        role="stop_job",
        acp_kind="execute",
        get_subject=job_argument,
        aliases="kill_shell kill_bash kill_terminal kill_command task_stop",
        argument_aliases={"job": f"{JOB_ARGUMENTS} command cmd"},
        claude_names=("KillShell", "KillBash", "TaskStop"),
        claude_arguments={"job": "shell_id"},
        small_window_policy="usually",
        short_form=ShortForm("Ends a job.", ("job",)),
    )
    schema = object_schema(
        {"job": {"type": "string"}},
        required=("job",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (command_runs.jobs.get_job(arguments, workspace).command,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        job = command_runs.jobs.get_job(arguments, workspace)
        job.is_end_reported = True
        await job.program.close()
        return replace(command_runs.jobs.job_update_result(job), has_failed=False)
