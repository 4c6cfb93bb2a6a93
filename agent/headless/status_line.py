"""A status line at the bottom of a terminal, which shows what a run is doing and disappears with it."""

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

_A_SECOND = 4
"""Redraws per second, for the spinner and the elapsed time."""
_MAX_ARGUMENT_CHARS = 200
_CALL_WORDS = ("command", "path", "pattern", "query", "url", "prompt", "description")
"""The arguments that best describe a call, in order."""


class _CursorKeepingConsole(Console):
    """A console that never hides the cursor, since a killed run could not restore it."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class RunStatusLine:
    """The status line of one run, shown from its first event on."""

    def __init__(self, err: TextIO, visible: Callable[[str], str], clock: Callable[[], float]) -> None:
        """`err` is a terminal, `visible` makes text safe for it, and `clock` returns seconds."""
        self._console = _CursorKeepingConsole(file=err, soft_wrap=True, highlight=False)
        self._visible = visible
        self._clock = clock
        self._started = clock()
        self._doing, self._size, self._step = "asking the model", "", 0
        self._spinner = Spinner("dots")
        self._live = Live(
            console=self._console, get_renderable=self._renderable, transient=True, refresh_per_second=_A_SECOND,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def show(self, event: OutputEvent) -> None:
        match event:
            case StepStarted(step=step):
                self._step, self._doing = step, "asking the model"
            case ContextMeasured(used=used, effective=effective):
                self._size = f"{used:,} of {effective:,} tokens"
            case TextDelta():
                self._doing = "writing"
            case ReplyFinished() | ToolFinished() | ContextCompacted() | NothingCompacted():
                self._doing = "working"
            case ToolStarted(name=name, arguments=arguments):
                about = next((str(arguments[word]) for word in _CALL_WORDS if word in arguments), "")
                self._doing = f"{name} {about[:_MAX_ARGUMENT_CHARS]}".rstrip()
            case RetryScheduled():
                self._doing = "waiting for another attempt"
            case CompactionStarted():
                self._doing = "summarising"
            case AgentActivity(name=name, event=ToolStarted(name=tool)):
                self._doing = f"{name}: {tool}"
            case _:
                return
        self._live.start()

    def print_above(self, line: str) -> None:
        self._console.print(Text(line))

    def close(self) -> None:
        self._live.stop()

    def _renderable(self) -> Spinner:
        seconds = int(self._clock() - self._started)
        parts = (f"step {self._step}", self._size, f"{seconds // 60}:{seconds % 60:02}", self._doing)
        line = " · ".join(part for part in parts if part)
        told = Text(" ".join(self._visible(line).split()), style="dim", no_wrap=True, overflow="ellipsis")
        self._spinner.update(text=told)
        return self._spinner
