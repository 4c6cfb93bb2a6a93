"""Program output as the result of a call: of a finished command, or of a job since the last call."""

from dataclasses import replace

from ebbtide.tools.base import Arguments, PrintedLog, Result, ToolError, Workspace
from ebbtide.tools.outputs.plain_text import as_text, cut_line, plain
from ebbtide.tools.process.jobs import EndedJob, Job
from ebbtide.tools.process.program import Program
from ebbtide.tools.process.state import ProgramState, state_of
from ebbtide.tools.schema import text

MAX_PRINTED_BYTES = 4096
"""Log size up to which the output is part of the result's text."""

_LAST_LINES, _MAX_LINE_CHARS = 10, 200
"""Number of last lines shown when a job ends, and characters per line."""


def with_log(log: PrintedLog, nothing: str, state: ProgramState, *, failed: bool) -> Result:
    """Return the output and its state, as one text if possible."""
    state = replace(state, is_silent=log.start == log.end)
    shown = printed_text(log)
    if shown is None:
        return Result(state.told, log, failed=failed, program=state)
    if log.is_finished:
        log.path.unlink(missing_ok=True)
    return Result(f"{nothing if state.is_silent else shown}\n{state.told}", failed=failed, program=state)


def printed_text(log: PrintedLog) -> str | None:
    """Return the log's text without its final newline, or None if text cannot show all of it."""
    if log.end - log.start > MAX_PRINTED_BYTES:
        return None
    with log.path.open("rb") as file:
        file.seek(log.start)
        return as_text(file.read(log.end - log.start))


def beginning_printed(result: Result, most: int) -> str:
    """Return the output of an ended program and its state, limited to the first `most` bytes. Deletes the log."""
    log = result.log
    if log is None:
        return result.text
    with log.path.open("rb") as file:
        file.seek(log.start)
        shown = plain(file.read(min(log.end - log.start, most)).decode("utf-8", "replace")).removesuffix("\n")
    log.path.unlink(missing_ok=True)
    more = log.end - log.start - most
    return "\n".join((shown, *((f"[… {more:,} bytes more …]",) if more > 0 else ()), result.text))


def job_of(arguments: Arguments, workspace: Workspace) -> Job:
    name = text(arguments, "job")
    job = workspace.jobs.by_id.get(name)
    if job is None:
        known = ", ".join(workspace.jobs.by_id) or "none"
        what = "`bash` with `background` starts a job; any other command returns its output directly"
        raise ToolError(f"there is no job `{name}`; jobs of this session: {known} ({what})")
    return job


def news_of(job: Job) -> Result:
    """Return the job's output since the last call, and its state."""
    program = job.program
    job.is_end_known = job.is_end_known or program.code is not None
    log = new_output(job)
    state = state_of(program.code, job.id)
    told = (program.output.problem, dropped_note(program), f"{job.id}: {state.how}{job.where}")
    state = replace(state, told="\n".join(filter(None, told)))
    return with_log(log, "no new output", state, failed=bool(program.code))


def new_output(job: Job) -> PrintedLog:
    """Return the job's output since the last call."""
    start, job.read_offset = job.read_to, job.program.size  # output that arrives meanwhile is left for the next call
    job.read_to = job.program.output.flush()
    start = min(start, job.read_to)
    return PrintedLog(job.program.log, start, job.read_to, is_finished=False, is_whole=job.program.output.is_whole)


def ended_job(job: Job) -> EndedJob:
    """Return the summary of an ended job, with the end of its unread output."""
    state = state_of(job.program.code, job.id)
    end = job.program.output.flush()
    with job.program.log.open("rb") as file:
        file.seek(max(min(job.read_to, end), end - MAX_PRINTED_BYTES))
        lines = [line for line in plain(file.read().decode("utf-8", "replace")).split("\n") if line.strip()]
    last = tuple(cut_line(line, _MAX_LINE_CHARS) for line in lines[-_LAST_LINES:])
    return EndedJob(job.id, job.command, state.how, last)


def dropped_note(program: Program) -> str:
    """Return a note if output exceeded the limit, or an empty string."""
    output = program.output
    if not output.is_over:
        return ""
    return f"it printed {output.size:,} bytes, more than the limit of {output.limit:,}: the middle was dropped"
