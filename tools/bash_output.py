"""The `bash_output` tool: what a background job has printed since the last look."""

from tools.base import Arguments, Effect, Result, Workspace, description_beside
from tools.program_output import job_of, news_of
from tools.schema import number, object_of

MOST_SECONDS = 60


class BashOutput:
    name = "bash_output"
    description = description_beside(__file__)
    effect: Effect = "none"
    schema = object_of(
        {
            "job": {"type": "string"},
            "wait": {"type": "integer", "minimum": 0, "maximum": MOST_SECONDS, "description": "seconds"},
        },
        required=("job",),
    )

    def subjects(self, arguments: Arguments, workspace: Workspace) -> tuple[str, ...]:
        return (job_of(arguments, workspace).command,)

    async def run(self, arguments: Arguments, workspace: Workspace) -> Result:
        job = job_of(arguments, workspace)
        await job.program.wait_for_news(number(arguments, "wait", 0), job.shown)
        return news_of(job)
