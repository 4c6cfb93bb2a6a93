"""The `bash_output` tool: what a background job has printed since the last look."""

from dataclasses import replace

from tools.base import Arguments, Effect, PrintedLog, Result, ToolError, Workspace, description_beside
from tools.bash import with_log
from tools.process.jobs import Job
from tools.process.state import state_of
from tools.schema import number, object_of, text

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


def job_of(arguments: Arguments, workspace: Workspace) -> Job:
    name = text(arguments, "job")
    job = workspace.jobs.by_id.get(name)
    if job is None:
        known = ", ".join(workspace.jobs.by_id) or "none"
        what = "a job is what `bash` starts with `background`; any other command has its output in its own answer"
        raise ToolError(f"there is no job `{name}`; jobs of this session: {known} ({what})")
    return job


def news_of(job: Job) -> Result:
    """What the job printed since the last look, and how it stands."""
    program = job.program
    size = program.size
    end = min(program.kept, size)  # what comes meanwhile is for the next look
    log = PrintedLog(program.log, min(job.shown, end), end, is_finished=False, is_whole=end == size)
    job.shown = size
    state = state_of(program.code, job.id)
    state = replace(state, told="\n".join(filter(None, (program.problem, f"{job.id}: {state.how}"))))
    return with_log(log, "no new output", state, failed=bool(program.code))
