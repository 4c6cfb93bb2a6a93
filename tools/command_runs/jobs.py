"""Background jobs: starting them, writing to them, and their output as results."""

from dataclasses import replace

from ebbtide.tools.base import Arguments, LoggedOutput, Result, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import get_text
from ebbtide.tools.command_runs.launch import CommandRun, background_launch, start_run
from ebbtide.tools.command_runs.results import MAX_PRINTED_BYTES, dropped_output_note, result_with_log
from ebbtide.tools.outputs.plain_text import terminal_text, truncate_line
from ebbtide.tools.process.jobs import EndedJob, Job
from ebbtide.tools.process.state import ProgramState, program_state

_MAX_LAST_LINES, _MAX_LINE_CHARS = 10, 200
"""Limits for the output shown when a job ends: the number of last lines, and the characters in each line."""
_REPLY_TIMEOUT_S = 1.0
"""Time to wait for a job to respond to input, in seconds."""


def get_job(arguments: Arguments, workspace: Workspace) -> Job:
    name = get_text(arguments, "job")
    job = workspace.jobs.by_id.get(name)
    if job is None:
        job_names = ", ".join(workspace.jobs.by_id) or "none"
        explanation = "`bash` with `background` starts a job; any other command returns its output directly"
        raise ToolError(f"there is no job `{name}`; jobs of this session: {job_names} ({explanation})")
    return job


def run_in_background(run: CommandRun, *, has_terminal: bool) -> Result:
    program = start_run(run, background_launch(run, has_terminal=has_terminal), None, has_terminal=has_terminal)
    job = run.workspace.jobs.add(run.line, program, summarise_ended_job, has_own_network=run.access is not None)
    state_text = f"{job.id} is running; bash_output shows its output, bash_kill ends it"
    return Result(state_text, program=ProgramState(state_text, job=job.id, is_silent=True))


async def send_to_job(job: Job, input_text: str) -> Result:
    """Write a line to the job's terminal and return what the job prints in response."""
    if not job.program.has_terminal:
        raise ToolError(f"{job.id} takes no input: start the command with `terminal`, and write to that job")
    if job.program.code is not None:
        raise ToolError(
            f"{job.id} has ended ({program_state(job.program.code).outcome_text}): start it again to write to it"
        )
    previous_size, line = job.program.printed_bytes, input_text if input_text.endswith("\n") else f"{input_text}\n"
    if not job.program.write(line.encode("utf-8", "surrogateescape")):
        raise ToolError(f"{job.id} cannot accept that much now: check it with bash_output, and write less at a time")
    await job.program.wait_for_output(_REPLY_TIMEOUT_S, previous_size + len(line) + line.count("\n"))
    return job_update_result(job)


def still_running_result(job: Job, seconds: int) -> Result:
    job.program.stop_progress()
    log = _take_unread_output(job)
    state_text = (
        f"not finished after {seconds} s: it continues as {job.id}; bash_output shows its output, bash_kill ends it"
    )
    return result_with_log(log, "no output yet", ProgramState(state_text, job=job.id), has_failed=False)


def job_update_result(job: Job) -> Result:
    """Build a result with the job's state and its output since the last call."""
    program = job.program
    job.is_end_reported = job.is_end_reported or program.code is not None
    log = _take_unread_output(job)
    state = program_state(program.code, job.id)
    notes = (program.output.problem, dropped_output_note(program), f"{job.id}: {state.outcome_text}{job.ports_text}")
    state = replace(state, told="\n".join(filter(None, notes)))
    return result_with_log(log, "no new output", state, has_failed=bool(program.code))


def _take_unread_output(job: Job) -> LoggedOutput:
    """Return the job's output since the last call, and mark it as read."""
    start, job.returned_bytes = job.returned_log_offset, job.program.printed_bytes  # later output is for the next call
    job.returned_log_offset = job.program.output.flush()
    start = min(start, job.returned_log_offset)
    return LoggedOutput(
        job.program.log, start, job.returned_log_offset, is_finished=False, is_complete=job.program.output.is_complete
    )


def summarise_ended_job(job: Job) -> EndedJob:
    """Summarise an ended job, including the last part of its unread output."""
    state = program_state(job.program.code, job.id)
    end = job.program.output.flush()
    with job.program.log.open("rb") as file:
        file.seek(max(min(job.returned_log_offset, end), end - MAX_PRINTED_BYTES))
        lines = [line for line in terminal_text(file.read().decode("utf-8", "replace")).split("\n") if line.strip()]
    last_lines = tuple(truncate_line(line, _MAX_LINE_CHARS) for line in lines[-_MAX_LAST_LINES:])
    return EndedJob(job.id, job.command, state.outcome_text, last_lines)
