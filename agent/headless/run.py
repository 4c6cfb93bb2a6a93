"""Runs one headless session: the prompt in, the answer on standard output, and an exit code."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TextIO, TypeAlias

from ebbtide.agent.config.values import Config
from ebbtide.agent.context.mentions import piped_note
from ebbtide.agent.crash import crash_error, log_stray_errors, secrets_of
from ebbtide.agent.errors import AgentError, UsageError, is_unwritable
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.headless.answer_file import AnswerFile
from ebbtide.agent.headless.json_output import JsonOutput, StreamOutput
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper, interrupted_by_signals, stopped_after
from ebbtide.agent.headless.stream_events import OutputEvent, run_started
from ebbtide.agent.headless.text_output import TextOutput
from ebbtide.agent.headless.turns import Turns
from ebbtide.agent.messages import Text, User
from ebbtide.agent.session import Session
from ebbtide.agent.sessions import Sessions
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.sandbox.boundary import SandboxState
from ebbtide.tools.sandbox.system import known_kind, sandbox_kind

Format: TypeAlias = Literal["text", "json", "stream-json", "claude-stream-json"]
STREAMS: tuple[Format, ...] = ("stream-json", "claude-stream-json")
"""Formats that stream events, including questions."""


@dataclass(frozen=True, slots=True)
class HeadlessJob:
    """What a headless run should do."""

    prompt: str
    format: Format = "text"
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must match."""
    resume: str | None = None
    """Prefix of the id of the session to resume; empty for the project's latest."""
    piped: str = ""
    """Piped input that is too long for the prompt."""
    is_driven: bool = False
    """Whether a client sends further lines on standard input (`driven_run`); the prompt may then be empty."""
    session_id: str = ""
    """Id of the new session, if the user chose one."""
    max_time: float | None = None
    """Time limit of the run in seconds."""
    answer_file: Path | None = None
    """File to which the answer is also written."""
    includes_partial_messages: bool = False
    """Whether text is streamed as it is written, in the format where that is optional."""
    is_quiet: bool = False
    """Whether compactions are counted but not reported."""
    is_verbose: bool = False
    """Whether each step and call is reported on stderr."""
    visible: Callable[[str], str] = str
    """Makes text safe for a terminal."""


class RunOutput(Protocol):
    """An output format."""

    def show(self, event: OutputEvent) -> None: ...

    def end_turn(self, outcome: RunOutcome) -> None:
        """Report the end of a turn."""

    def end(self, outcome: RunOutcome) -> None: ...


async def run(sessions: Sessions, job: HeadlessJob, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Run the job, print its output, and return the exit code. Raises `UsageError` before any output if the command
    line is invalid."""
    log_stray_errors(sessions.config.folders.logs)
    outcome, stop = RunOutcome(), RunStopper()
    if job.is_driven and job.format == "claude-stream-json":
        sessions.config = replace(sessions.config, takes_hooks=True)
    answer_file = AnswerFile.open_path(job.answer_file) if job.answer_file is not None else None
    output = _output_for(job, out or sys.stdout, err or sys.stderr)
    with interrupted_by_signals(stop.request), stopped_after(stop, job.max_time):
        try:
            await _work(sessions, job, outcome, output, stop)
        except UsageError:
            raise
        except AgentError as error:
            outcome.fail(error.code, str(error), error.exit_code)
        except Exception as error:
            if isinstance(error, BrokenPipeError) or is_unwritable(error):
                raise  # the output is no longer read, or cannot be written
            known = tuple(secrets_of(sessions.config, os.environ))
            fault = crash_error(error, sessions.config.folders.logs, known)
            outcome.fail(fault.code, str(fault), fault.exit_code)
        finally:
            await sessions.close()
        if outcome.stop_reason == "interrupted":
            outcome.end(stop.cause)
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else known_kind()
        if answer_file is not None:
            answer_file.write(outcome)
        output.end(outcome)
    if job.format == "claude-stream-json" and outcome.stop_reason == "denied":
        return 0  # clients of this format treat any other code as a crash
    return outcome.exit_code


def _output_for(job: HeadlessJob, out: TextIO, err: TextIO) -> RunOutput:
    if job.format in STREAMS:
        told = Progress(err, job.visible, is_verbose=True) if job.is_verbose else None
        if job.format == "stream-json":
            return StreamOutput(out, told)
        from ebbtide.agent.headless.claude.output import ClaudeOutput  # noqa: PLC0415  # deferred: rarely used format

        return ClaudeOutput(out, told, tells_parts=job.includes_partial_messages)
    progress = _progress_for(job, err)
    return JsonOutput(out, progress) if job.format == "json" else TextOutput(out, progress, job.visible)


def _progress_for(job: HeadlessJob, err: TextIO) -> Progress:
    status = None
    if err.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from ebbtide.agent.headless.status_line import RunStatusLine  # noqa: PLC0415  # deferred: few runs have a terminal

        status = RunStatusLine(err, job.visible, time.monotonic)
    return Progress(err, job.visible, is_quiet=job.is_quiet, is_verbose=job.is_verbose, status=status)


async def _work(sessions: Sessions, job: HeadlessJob, outcome: RunOutcome, output: RunOutput, stop: RunStopper) -> None:
    session = await stop.wish.race(sessions.open(job.resume, new_id=job.session_id))
    if session is None:
        outcome.mark_interrupted()
        return
    outcome.session, outcome.mode, stop.session = session.id, session.mode, session
    session.listen(output.show)
    if job.format in STREAMS:
        output.show(run_started(session, await _sandbox(sessions.config)))
    try:
        if stop.wish.is_requested():
            outcome.mark_interrupted()
        elif job.is_driven:
            await _drive(sessions, session, job, outcome, output, stop)
        else:
            turns = Turns(session, outcome, output.show, stop, job.schema)
            await turns.answer(job.prompt, (piped_note(job.piped),) if job.piped else ())
    finally:
        session = stop.session  # the client may have had the session reopened
        running = session.running_jobs
        await session.close()
        for ended in running:
            output.show(Noticed(f"background job ended with the run: {ellipsize(ended, 200)}"))


async def _drive(
    sessions: Sessions, session: Session, job: HeadlessJob, outcome: RunOutcome, output: RunOutput, stop: RunStopper
) -> None:
    from ebbtide.agent.headless.driven_run import DrivenRun  # noqa: PLC0415  # deferred: few runs are controlled by a client
    from ebbtide.agent.headless.input_messages import InputProtocol, StreamInput  # noqa: PLC0415  # deferred: as below
    from ebbtide.agent.headless.line_reader import has_reader, lines_of  # noqa: PLC0415  # deferred: as above

    protocol: InputProtocol = StreamInput()
    if job.format == "claude-stream-json":
        from ebbtide.agent.headless.claude.input import ClaudeInput  # noqa: PLC0415  # deferred: rarely used format

        named = session.extensions.usable() if session.extensions is not None else ()
        protocol = ClaudeInput(str(session.root), output.show, tuple(one.name for one in named), sessions.models())
    reader = partial(has_reader, sys.stdout.fileno())
    driven = DrivenRun(sessions, session, outcome, output.show, stop, reader, protocol, job.schema, output.end_turn)
    session.listen(driven.show)
    first = User((Text(job.prompt),)) if job.prompt else None
    await driven.work(first, lines_of(sys.stdin.fileno()))


async def _sandbox(config: Config) -> SandboxState:
    """Return the sandbox for commands. Probing for it takes about 10 ms, which the first command then need not wait."""
    return "off" if config.sandbox == "off" else await asyncio.to_thread(sandbox_kind)
