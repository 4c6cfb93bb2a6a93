"""Reports the progress of a run on standard error."""

import errno
import json
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

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
from ebbtide.agent.headless.log_commands import log_safe
from ebbtide.agent.headless.stream_events import OutputEvent
from ebbtide.agent.records.session_state import news_for_user
from ebbtide.tools.outputs.extent import ellipsize

if TYPE_CHECKING:  # types only: few runs have a terminal, and the drawing code takes long to load
    from ebbtide.agent.headless.status_line import RunStatusLine

_MAX_ARGUMENT_CHARS = 200
"""Maximum length of a call's arguments, in characters."""


class Progress:
    """Prints a line for each noteworthy event, with a status line if standard error is a terminal."""

    def __init__(
        self,
        err: TextIO,
        visible: Callable[[str], str],
        *,
        is_quiet: bool = False,
        is_verbose: bool = False,
        status: "RunStatusLine | None" = None,
    ) -> None:
        """`visible` makes text safe for a terminal. With `is_quiet`, compactions are not reported; with `is_verbose`,
        each step and call is. `status` is the status line."""
        self._err = err
        self._visible = visible
        self._is_quiet = is_quiet
        self._is_watched = err.isatty()
        self._is_verbose = is_verbose
        self._status = status
        self._step = 0

    def show(self, event: OutputEvent) -> None:
        if self._status is not None:
            self._status.show(event)
        match event:
            case RetryScheduled(attempt=attempt, attempts=attempts, delay=delay, reason=reason, left=left):
                of = f" of {attempts}" if attempts else ""
                end = f", giving up {left:.0f} s later" if left is not None and not attempts else ""
                self.print_line(f"{reason.rstrip('.')}; attempt {attempt}{of} in {delay:.1f} s{end}")
            case Noticed(text=text):
                self.print_line(text)
            case JobEnded(job=job, command=command, how=how):
                self.print_line(f"{job} ended, {how}: {ellipsize(command, _MAX_ARGUMENT_CHARS)}")
            case ContextCompacted() if not self._is_quiet:
                from ebbtide.agent.context.announcement import announcement  # noqa: PLC0415  # deferred: most runs do not compact

                self.print_line(announcement(event))
            case CompactionFailed(model=model, reason=reason):
                self.print_line(f"the summary by {model} was not used: {reason}")
            case ModelSwitched(after=after, why=why):
                self.print_line(f"the model is now {after}: {why}")
            case Resumed():
                for text in news_for_user(event):
                    self.print_line(text)
            case ToolStarted(name=name, arguments=arguments) if self._is_watched or self._is_verbose:
                self.print_line(call_summary(name, arguments))
            case _:
                if self._is_verbose:
                    self._print_verbose(event)

    def _print_verbose(self, event: OutputEvent, whose: str = "") -> None:
        match event:
            case StepStarted(step=step):
                self._step = step
            case ContextMeasured(used=used, effective=effective):
                self.print_line(f"{whose}step {self._step}: {used:,} of {effective:,} tokens")
            case ReplyFinished(model=model, usage=usage, cost=cost, purpose=purpose):
                sent = usage.input + usage.cache_read + usage.cache_write
                paid = "" if cost is None else f", ${cost:.4f}"
                self.print_line(f"{whose}{model} ({purpose}): {sent:,} tokens in, {usage.output:,} out{paid}")
            case ToolStarted(name=name, arguments=arguments):
                self.print_line(f"{whose}{call_summary(name, arguments)}")
            case ToolFinished(name=name, status=status, changed=changed):
                files = f", changed {', '.join(changed)}" if changed else ""
                self.print_line(f"{whose}{name}: {status}{files}")
            case CallDenied(name=name, rule=rule):
                self.print_line(f"{whose}{name} was denied: {rule}")
            case AgentActivity(name=name, event=inner):
                self._print_verbose(inner, f"{name}: ")
            case _:
                pass

    def print_line(self, text: str) -> None:
        """Print a line on standard error. A full disk is ignored, so that the run and its exit code do not change."""
        line = log_safe("ebb: " + (self._visible(text) if self._is_watched else text), os.environ)
        try:
            if self._status is not None:
                self._status.print_above(line)
            else:
                print(line, file=self._err)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._err.fileno())

    def close(self) -> None:
        """Remove the status line. Lines may still be printed."""
        if self._status is not None:
            self._status.close()
            self._status = None


def call_summary(name: str, arguments: Mapping[str, object]) -> str:
    """A call on one line."""
    return f"{name} {json.dumps(arguments, ensure_ascii=False)[:_MAX_ARGUMENT_CHARS]}"
