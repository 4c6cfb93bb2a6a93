"""The `bash_output` tool: shows a background job's output since the last call."""

from ebbtide.tools.base import Arguments, Effect, Result, Workspace, read_description
from ebbtide.tools.program_output import job_of, news_of
from ebbtide.tools.schema import number, object_of

MAX_WAIT_S = 60


class BashOutput:
    name = "bash_output"
    description = read_description(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "job": {"type": "string"},
            "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S, "description": "seconds"},
        },
        required=("job",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (job_of(arguments, workspace).command,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        job = job_of(arguments, workspace)
        await job.program.wait_for_news(number(arguments, "wait", 0), job.read_offset)
        return news_of(job)
