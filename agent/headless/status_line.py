"""A status line at the bottom of a terminal that shows what a run is doing. It disappears when the run ends."""

from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from ebbtide.agent.events.session import (
    AgentActivity,
    ContextMeasured,
    ReplyFinished,
    RetryScheduled,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ebbtide.agent.events.view import CompactionStarted, ContextCompacted, NothingCompacted
from ebbtide.agent.headless.stream_events import OutputEvent

_REDRAWS_PER_SECOND = 4
"""Redraws per second, for the spinner and elapsed time."""
_MAX_ARGUMENT_CHARS = 200
_DESCRIPTIVE_ARGUMENTS = ("command", "path", "pattern", "query", "url", "prompt", "description")
"""The arguments that best describe a call, in order of preference."""


class _CursorKeepingConsole(Console):
    """A console that never hides the cursor, because a killed run could not restore it."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class RunStatusLine:
    """The status line of one run, shown from its first event on."""

    def __init__(self, terminal: TextIO, sanitise: Callable[[str], str], clock: Callable[[], float]) -> None:
        """`sanitise`: makes text safe for the terminal; `clock`: returns seconds."""
        self._console = _CursorKeepingConsole(file=terminal, soft_wrap=True, highlight=False)
        self._sanitise = sanitise
        self._clock = clock
        self._start_time = clock()
        self._activity, self._context_usage, self._step = "asking the model", "", 0
        self._spinner = Spinner("dots")
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            transient=True,
            refresh_per_second=_REDRAWS_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def update(self, event: OutputEvent) -> None:
        match event:
            case StepStarted(step=step):
                self._step, self._activity = step, "asking the model"
            case ContextMeasured(used=used, effective=effective):
                self._context_usage = f"{used:,} of {effective:,} tokens"
            case TextDelta():
                self._activity = "writing"
            case ReplyFinished() | ToolFinished() | ContextCompacted() | NothingCompacted():
                self._activity = "working"
            case ToolStarted(name=name, arguments=arguments):
                argument = next((str(arguments[key]) for key in _DESCRIPTIVE_ARGUMENTS if key in arguments), "")
                self._activity = f"{name} {argument[:_MAX_ARGUMENT_CHARS]}".rstrip()
            case RetryScheduled():
                self._activity = "waiting to retry"
            case CompactionStarted():
                self._activity = "summarising"
            case AgentActivity(name=name, event=ToolStarted(name=tool_name)):
                self._activity = f"{name}: {tool_name}"
            case _:
                return
        self._live.start()

    def print_above(self, line: str) -> None:
        self._console.print(Text(line))

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> Spinner:
        seconds = int(self._clock() - self._start_time)
        parts = (f"step {self._step}", self._context_usage, f"{seconds // 60}:{seconds % 60:02}", self._activity)
        line = " · ".join(part for part in parts if part)
        label = Text(" ".join(self._sanitise(line).split()), style="dim", no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=label)
        return self._spinner
