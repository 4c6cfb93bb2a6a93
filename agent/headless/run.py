"""Runs one headless session: the prompt in, the answer on standard output, and an exit code."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from ebbtide.agent import headless
from ebbtide.agent.compose.sessions import ProjectSessions
from ebbtide.agent.config.values import Config
from ebbtide.agent.errors import AgentError, UsageError, is_unwritable
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.headless.answers import AnswerFile
from ebbtide.agent.headless.json_output import JsonOutput, JsonStreamOutput
from ebbtide.agent.headless.progress import Progress
from ebbtide.agent.headless.result import RunOutcome
from ebbtide.agent.headless.stop import RunStopper, stop_after, stop_on_signals
from ebbtide.agent.headless.stream_events import OutputEvent, describe_run
from ebbtide.agent.headless.text_output import TextOutput
from ebbtide.agent.headless.turns import HeadlessTurns
from ebbtide.agent.integration_registry import STREAM_FORMATS, load_integration
from ebbtide.agent.logs.crash_reports import config_secrets, crash_error, install_crash_handlers
from ebbtide.agent.messages import Text, User
from ebbtide.agent.prompt.mentions import piped_note
from ebbtide.agent.session import Session
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.extent import ellipsize
from ebbtide.tools.sandbox.boundary import SandboxState
from ebbtide.tools.sandbox.system import detected_sandbox_kind, sandbox_kind

if TYPE_CHECKING:  # imported for types only, because few runs are controlled by a client
    from ebbtide.agent.headless.input_messages import InputProtocol

STREAM_FORMAT_NAMES = ("stream-json", *STREAM_FORMATS)
"""Formats that stream events, including questions."""


@dataclass(frozen=True, slots=True)
class HeadlessOptions:
    """The prompt and options of a headless run."""

    prompt: str
    output_format: str = "text"
    """`text`, `json` or one of `STREAM_FORMAT_NAMES`."""
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must match."""
    resumed_id_prefix: str | None = None
    """Prefix of the id of the session to resume; empty for the project's latest session."""
    piped_text: str = ""
    """Piped input that is too long for the prompt."""
    is_client_driven: bool = False
    """Whether a client sends further lines on standard input (`driven_run`); the prompt may then be empty."""
    session_id: str = ""
    """Id of the new session, if the user chose one."""
    max_time: float | None = None
    """Time limit of the run in seconds."""
    answer_file: Path | None = None
    """File to which the answer is also written."""
    includes_partial_messages: bool = False
    """Whether text is streamed as it is written, in formats where that is optional."""
    is_quiet: bool = False
    """Whether compactions are counted but not reported."""
    is_verbose: bool = False
    """Whether each step and call is reported on stderr."""
    sanitise: Callable[[str], str] = str
    """Makes text safe for a terminal."""


class RunOutput(Protocol):
    """An output format."""

    def show(self, event: OutputEvent) -> None: ...

    def end_turn(self, outcome: RunOutcome) -> None:
        """Report the end of a turn."""

    def end_run(self, outcome: RunOutcome) -> None: ...


class StreamFormat(Protocol):
    """A format of `STREAM_FORMATS`, for both input and output."""

    takes_hooks: bool
    """Whether the client may provide hooks."""

    def create_output(self, out: TextIO, progress: Progress | None, *, includes_partials: bool) -> RunOutput: ...

    def create_input(
        self, sessions: ProjectSessions, session: Session, show: Callable[[OutputEvent], None]
    ) -> "InputProtocol": ...

    def exit_code(self, outcome: RunOutcome) -> int: ...


async def run(
    sessions: ProjectSessions, options: HeadlessOptions, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> int:
    """Run the prompt, print the output, and return the exit code. Raises `UsageError` before any output if the command
    line is invalid."""
    install_crash_handlers(sessions.config.folders.logs)
    outcome, stopper = RunOutcome(), RunStopper()
    external_format = _create_external_format(options)
    if options.is_client_driven and external_format is not None and external_format.takes_hooks:
        sessions.config = replace(sessions.config, accepts_client_hooks=True)
    answer_file = AnswerFile.open(options.answer_file) if options.answer_file is not None else None
    output = _create_output(options, external_format, stdout or sys.stdout, stderr or sys.stderr)
    with stop_on_signals(stopper.request_stop), stop_after(stopper, options.max_time):
        try:
            await _run_session(sessions, options, external_format, outcome, output, stopper)
        except UsageError:
            raise
        except AgentError as error:
            outcome.record_failure(error.code, str(error), error.exit_code)
        except Exception as error:
            if isinstance(error, BrokenPipeError) or is_unwritable(error):
                raise  # the output cannot be written, for example because its reader is gone
            secrets = tuple(config_secrets(sessions.config, os.environ))
            crash = crash_error(error, sessions.config.folders.logs, secrets)
            outcome.record_failure(crash.code, str(crash), crash.exit_code)
        finally:
            await sessions.close()
        if outcome.stop_reason == "interrupted":
            outcome.record_turn_end(stopper.cause)
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else detected_sandbox_kind()
        if answer_file is not None:
            answer_file.write(outcome)
        output.end_run(outcome)
    return outcome.exit_code if external_format is None else external_format.exit_code(outcome)


def _create_external_format(options: HeadlessOptions) -> StreamFormat | None:
    """Return the run's output format if an integration provides it; None for a built-in format."""
    integration = STREAM_FORMATS.get(options.output_format)
    return cast(Callable[[], StreamFormat], load_integration(integration))() if integration is not None else None


def _create_output(
    options: HeadlessOptions, external_format: StreamFormat | None, out: TextIO, err: TextIO
) -> RunOutput:
    if options.output_format in STREAM_FORMAT_NAMES:
        progress = Progress(err, options.sanitise, is_verbose=True) if options.is_verbose else None
        if external_format is not None:
            return external_format.create_output(out, progress, includes_partials=options.includes_partial_messages)
        return JsonStreamOutput(out, progress)
    progress = _create_progress(options, err)
    return JsonOutput(out, progress) if options.output_format == "json" else TextOutput(out, progress, options.sanitise)


def _create_progress(options: HeadlessOptions, err: TextIO) -> Progress:
    status_line = None
    if err.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        status_line = headless.status_line.RunStatusLine(err, options.sanitise, time.monotonic)
    return Progress(
        err, options.sanitise, is_quiet=options.is_quiet, is_verbose=options.is_verbose, status_line=status_line
    )


async def _run_session(
    sessions: ProjectSessions,
    options: HeadlessOptions,
    external_format: StreamFormat | None,
    outcome: RunOutcome,
    output: RunOutput,
    stopper: RunStopper,
) -> None:
    session = await stopper.interrupt.race(sessions.open(options.resumed_id_prefix, new_id=options.session_id))
    if session is None:
        outcome.mark_interrupted()
        return
    outcome.session, outcome.mode, stopper.session = session.id, session.mode, session
    session.set_listener(output.show)
    if options.output_format in STREAM_FORMAT_NAMES:
        output.show(describe_run(session, await _detect_sandbox(sessions.config)))
    try:
        if stopper.interrupt.is_requested():
            outcome.mark_interrupted()
        elif options.is_client_driven:
            await _run_driven(sessions, session, options, external_format, outcome, output, stopper)
        else:
            turns = HeadlessTurns(session, outcome, output.show, stopper, options.schema)
            await turns.run_turn(options.prompt, (piped_note(options.piped_text),) if options.piped_text else ())
    finally:
        session = stopper.session  # the client's requests may have replaced the session
        running_jobs = session.running_jobs
        await session.close()
        for ended_job in running_jobs:
            output.show(Noticed(f"background job ended with the run: {ellipsize(ended_job, 200)}"))


async def _run_driven(
    sessions: ProjectSessions,
    session: Session,
    options: HeadlessOptions,
    external_format: StreamFormat | None,
    outcome: RunOutcome,
    output: RunOutput,
    stopper: RunStopper,
) -> None:
    protocol = (
        headless.input_messages.StreamInput()
        if external_format is None
        else external_format.create_input(sessions, session, output.show)
    )
    has_reader = partial(headless.line_reader.is_still_read, sys.stdout.fileno())
    driven_run = headless.driven_run.ClientDrivenRun(
        sessions, session, outcome, output.show, stopper, has_reader, protocol, options.schema, output.end_turn
    )
    session.set_listener(driven_run.show)
    first_message = User((Text(options.prompt),)) if options.prompt else None
    await driven_run.run(first_message, headless.line_reader.read_lines(sys.stdin.fileno()))


async def _detect_sandbox(config: Config) -> SandboxState:
    """Return the kind of sandbox for commands. Checking it now saves the first command about 10 ms."""
    return "off" if config.sandbox == "off" else await asyncio.to_thread(sandbox_kind)
