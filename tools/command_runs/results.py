"""Turns a program's output into the result of a call: all output of a finished command, or a job's output since the
last call."""

from dataclasses import replace

from ebbtide.tools.base import Arguments, PrintedLog, Result, ToolError, Workspace
from ebbtide.tools.call_arguments.schema import get_text
from ebbtide.tools.outputs.plain_text import lossless_text, terminal_text, truncate_line
from ebbtide.tools.process.jobs import EndedJob, Job
from ebbtide.tools.process.program import Program
from ebbtide.tools.process.state import ProgramState, program_state

MAX_PRINTED_BYTES = 4096
"""Maximum size in bytes of output that is put into the result's text. Longer output stays in the log."""

_MAX_LAST_LINES, _MAX_LINE_CHARS = 10, 200
"""Maximum number of final lines shown when a job ends, and of characters in each."""


def result_with_log(log: PrintedLog, silent_text: str, state: ProgramState, *, failed: bool) -> Result:
    """Return a result with the output and the program's state, as one text if the output is short enough."""
    state = replace(state, is_silent=log.start == log.end)
    printed = printed_text(log)
    if printed is None:
        return Result(state.told, log, has_failed=failed, program=state)
    if log.is_finished:
        log.path.unlink(missing_ok=True)
    return Result(f"{silent_text if state.is_silent else printed}\n{state.told}", has_failed=failed, program=state)


def printed_text(log: PrintedLog) -> str | None:
    """Return the log's text without its final newline; None if it is too long, or if text cannot represent all of
    it."""
    if log.end - log.start > MAX_PRINTED_BYTES:
        return None
    with log.path.open("rb") as file:
        file.seek(log.start)
        return lossless_text(file.read(log.end - log.start))


def truncated_output(result: Result, max_bytes: int) -> str:
    """Return the first `max_bytes` bytes of an ended program's output, followed by its state. Deletes the log."""
    log = result.log
    if log is None:
        return result.text
    with log.path.open("rb") as file:
        file.seek(log.start)
        printed = terminal_text(file.read(min(log.end - log.start, max_bytes)).decode("utf-8", "replace")).removesuffix(
            "\n"
        )
    log.path.unlink(missing_ok=True)
    omitted_bytes = log.end - log.start - max_bytes
    return "\n".join((printed, *((f"[… {omitted_bytes:,} bytes more …]",) if omitted_bytes > 0 else ()), result.text))


def require_job(arguments: Arguments, workspace: Workspace) -> Job:
    name = get_text(arguments, "job")
    job = workspace.jobs.by_id.get(name)
    if job is None:
        job_names = ", ".join(workspace.jobs.by_id) or "none"
        explanation = "`bash` with `background` starts a job; any other command returns its output directly"
        raise ToolError(f"there is no job `{name}`; jobs of this session: {job_names} ({explanation})")
    return job


def job_update_result(job: Job) -> Result:
    """Return the job's output since the last call, and its state."""
    program = job.program
    job.is_end_reported = job.is_end_reported or program.code is not None
    log = take_unread_output(job)
    state = program_state(program.code, job.id)
    notes = (program.output.problem, dropped_output_note(program), f"{job.id}: {state.outcome_text}{job.ports_text}")
    state = replace(state, told="\n".join(filter(None, notes)))
    return result_with_log(log, "no new output", state, failed=bool(program.code))


def take_unread_output(job: Job) -> PrintedLog:
    """Return the job's output since the last call."""
    start, job.returned_bytes = job.returned_log_offset, job.program.printed_bytes  # later output is for the next call
    job.returned_log_offset = job.program.output.flush()
    start = min(start, job.returned_log_offset)
    return PrintedLog(
        job.program.log, start, job.returned_log_offset, is_finished=False, is_complete=job.program.output.is_complete
    )


def summarise_ended_job(job: Job) -> EndedJob:
    """Return the summary of an ended job, with the end of its unread output."""
    state = program_state(job.program.code, job.id)
    end = job.program.output.flush()
    with job.program.log.open("rb") as file:
        file.seek(max(min(job.returned_log_offset, end), end - MAX_PRINTED_BYTES))
        lines = [line for line in terminal_text(file.read().decode("utf-8", "replace")).split("\n") if line.strip()]
    last_lines = tuple(truncate_line(line, _MAX_LINE_CHARS) for line in lines[-_MAX_LAST_LINES:])
    return EndedJob(job.id, job.command, state.outcome_text, last_lines)


def dropped_output_note(program: Program) -> str:
    """Return a note if output was dropped because it exceeded the limit; otherwise an empty string."""
    output = program.output
    if not output.is_truncated:
        return ""
    return (
        f"it printed {output.printed_bytes:,} bytes, more than the limit of {output.max_bytes:,}: the middle was "
        "dropped"
    )
