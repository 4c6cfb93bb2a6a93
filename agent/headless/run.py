"""One headless run: a prompt becomes an answer on standard output, and an exit code."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TextIO, TypeAlias

from agent.context.mentions import piped
from agent.crash import crashed, print_nothing, secrets_of
from agent.errors import AgentError, UsageError, is_unwritable
from agent.events.session import Event, Noticed
from agent.headless.json_output import JsonOutput, StreamOutput
from agent.headless.result import RunOutcome
from agent.headless.stop import RunStopper, interrupted_by_signals
from agent.headless.text_output import TextOutput
from agent.headless.turns import Turns
from agent.sessions import Sessions
from tools.lazy import dataclass
from tools.outputs.extent import shortened
from tools.sandbox.system import known_kind

Format: TypeAlias = Literal["text", "json", "stream-json"]


@dataclass(frozen=True, slots=True)
class HeadlessJob:
    """What a headless run is to do."""

    prompt: str
    format: Format = "text"
    schema: Mapping[str, object] | None = None
    """JSON Schema that the answer must meet."""
    resume: str | None = None
    """The beginning of the id of a session to go on with; empty for the newest of the project."""
    piped: str = ""
    """What came through a pipe besides, too long to stand in the prompt."""
    is_quiet: bool = False
    """Rewrites of the view are counted, but not told as they happen."""
    visible: Callable[[str], str] = str
    """What a terminal is given of a text, so that nothing in it steers the terminal."""


class Output(Protocol):
    """How a run is told."""

    def show(self, event: Event) -> None: ...

    def end(self, outcome: RunOutcome) -> None: ...


async def run(sessions: Sessions, job: HeadlessJob, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Does the job and prints it; the exit code. Raises `UsageError` before anything is printed, when the command line
    asks for what cannot be."""
    print_nothing(sessions.config.folders.logs)
    outcome, stop = RunOutcome(), RunStopper()
    output = _output_for(job, out or sys.stdout, err or sys.stderr)
    with interrupted_by_signals(stop):
        try:
            await _work(sessions, job, outcome, output, stop)
        except UsageError:
            raise
        except AgentError as error:
            outcome.fail(error.code, str(error), error.exit_code)
        except Exception as error:
            if isinstance(error, BrokenPipeError) or is_unwritable(error):
                raise  # nobody reads, or nothing takes, what is printed
            known = tuple(secrets_of(sessions.config, os.environ))
            fault = crashed(error, sessions.config.folders.logs, known)
            outcome.fail(fault.code, str(fault), fault.exit_code)
        finally:
            await sessions.close()
        outcome.sandbox = "off" if sessions.config.sandbox == "off" else known_kind()
        output.end(outcome)
    return outcome.exit_code


def _output_for(job: HeadlessJob, out: TextIO, err: TextIO) -> Output:
    if job.format == "stream-json":
        return StreamOutput(out)
    kind = TextOutput if job.format == "text" else JsonOutput
    return kind(out, err, job.visible, is_quiet=job.is_quiet)


async def _work(sessions: Sessions, job: HeadlessJob, outcome: RunOutcome, output: Output, stop: RunStopper) -> None:
    session = await stop.wish.race(sessions.open(job.resume))
    if session is None:
        outcome.interrupted()
        return
    outcome.session, outcome.mode, stop.session = session.id, session.mode, session
    session.listen(output.show)
    try:
        if stop.wish.requested():
            outcome.interrupted()
        else:
            turns = Turns(session, outcome, output.show, job.schema)
            await turns.answer(job.prompt, (piped(job.piped),) if job.piped else ())
    finally:
        running = session.running_jobs
        await session.close()
        for ended in running:
            output.show(Noticed(f"ended with the run, in the background until then: {shortened(ended, 200)}"))
