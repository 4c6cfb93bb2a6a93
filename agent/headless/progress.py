"""Reports the progress of a run on standard error."""

import errno
import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from ebbtide.agent import compaction
from ebbtide.agent.events.permissions import CallDenied
from ebbtide.agent.events.session import (
    AgentActivity,
    ContextMeasured,
    JobEnded,
    ModelSwitched,
    Noticed,
    ReplyFinished,
    Resumed,
    RetryScheduled,
    StepStarted,
    ToolFinished,
    ToolStarted,
)
from ebbtide.agent.events.view import CompactionFailed, ContextCompacted
from ebbtide.agent.headless.printing import escape_for_log
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.records.session_state import resume_notices
from ebbtide.tools.outputs.extent import ellipsize

if TYPE_CHECKING:  # imported for types only, because the drawing code loads slowly and few runs need it
    from ebbtide.agent.headless.status_line import RunStatusLine

_MAX_ARGUMENT_CHARS = 200
"""Maximum length of a call's arguments when printed, in characters."""


class Progress:
    """Prints a line for each noteworthy event, with a status line if standard error is a terminal."""

    def __init__(
        self,
        stderr: TextIO,
        sanitise: Callable[[str], str],
        *,
        is_quiet: bool = False,
        is_verbose: bool = False,
        status_line: "RunStatusLine | None" = None,
    ) -> None:
        """`sanitise`: makes text safe for a terminal; `is_quiet`: omit compactions; `is_verbose`: add every step and
        call."""
        self._stderr = stderr
        self._sanitise = sanitise
        self._is_quiet = is_quiet
        self._is_terminal = stderr.isatty()
        self._is_verbose = is_verbose
        self._status_line = status_line
        self._step = 0

    def show(self, event: OutputEvent) -> None:
        if self._status_line is not None:
            self._status_line.update(event)
        match event:
            case RetryScheduled(attempt=attempt, attempts=attempts, delay=delay, reason=reason, left=remaining_seconds):
                attempt_limit = f" of {attempts}" if attempts else ""
                deadline = (
                    f", giving up {remaining_seconds:.0f} s later"
                    if remaining_seconds is not None and not attempts
                    else ""
                )
                self.print_line(f"{reason.rstrip('.')}; attempt {attempt}{attempt_limit} in {delay:.1f} s{deadline}")
            case Noticed(text=text):
                self.print_line(text)
            case JobEnded(job=job, command=command, how=outcome):
                self.print_line(f"{job} ended, {outcome}: {ellipsize(command, _MAX_ARGUMENT_CHARS)}")
            case ContextCompacted() if not self._is_quiet:
                self.print_line(compaction.receipt.describe_compaction(event))
            case CompactionFailed(model=model, reason=reason):
                self.print_line(f"the summary by {model} was not used: {reason}")
            case ModelSwitched(after=new_model, why=cause):
                self.print_line(f"the model is now {new_model}: {cause}")
            case Resumed():
                for text in resume_notices(event):
                    self.print_line(text)
            case ToolStarted(name=name, arguments=arguments) if self._is_terminal or self._is_verbose:
                self.print_line(call_summary(name, arguments))
            case _:
                if self._is_verbose:
                    self._print_verbose(event)

    def _print_verbose(self, event: OutputEvent, prefix: str = "") -> None:
        match event:
            case StepStarted(step=step):
                self._step = step
            case ContextMeasured(used=used, effective=effective):
                self.print_line(f"{prefix}step {self._step}: {used:,} of {effective:,} tokens")
            case ReplyFinished(model=model, usage=usage, cost=cost, purpose=purpose):
                input_tokens = usage.input + usage.cache_read + usage.cache_write
                cost_text = "" if cost is None else f", ${cost:.4f}"
                self.print_line(
                    f"{prefix}{model} ({purpose}): {input_tokens:,} tokens in, {usage.output:,} out{cost_text}"
                )
            case ToolStarted(name=name, arguments=arguments):
                self.print_line(f"{prefix}{call_summary(name, arguments)}")
            case ToolFinished(name=name, status=status, changed=changed):
                files = f", changed {', '.join(changed)}" if changed else ""
                self.print_line(f"{prefix}{name}: {status}{files}")
            case CallDenied(name=name, rule=rule):
                self.print_line(f"{prefix}{name} was denied: {rule}")
            case AgentActivity(name=name, event=agent_event):
                self._print_verbose(agent_event, f"{name}: ")
            case _:
                pass

    def print_line(self, text: str) -> None:
        """Print a line on standard error. A full disk is ignored, so that it affects neither the run nor its exit
        code."""
        line = escape_for_log("ebb: " + (self._sanitise(text) if self._is_terminal else text), os.environ)
        try:
            if self._status_line is not None:
                self._status_line.print_above(line)
            else:
                print(line, file=self._stderr)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stderr.fileno())

    def close(self) -> None:
        """Remove the status line. Further lines can still be printed."""
        if self._status_line is not None:
            self._status_line.close()
            self._status_line = None


def call_summary(name: str, arguments: Mapping[str, object]) -> str:
    """Format a call as one line."""
    return f"{name} {json.dumps(arguments, ensure_ascii=False)[:_MAX_ARGUMENT_CHARS]}"
