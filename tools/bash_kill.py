"""The `bash_kill` tool: ends a background job."""

from dataclasses import replace

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.program_output import job_of, news_of
from ebbtide.tools.schema import object_of


class BashKill:
    name = "bash_kill"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
        {"job": {"type": "string"}},
        required=("job",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (job_of(arguments, workspace).command,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        job = job_of(arguments, workspace)
        job.is_end_known = True
        await job.program.close()
        return replace(news_of(job), failed=False)
