"""Progress of a batch: on a terminal a bar and the running tasks, otherwise a line per finished task."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TextIO

from ebbtide.agent.events.session import Event, Noticed, RetryScheduled, ToolStarted
from ebbtide.agent.headless.batch.batch import BatchProgress
from ebbtide.agent.headless.batch.task_run import TaskRun
from ebbtide.tui.text.sanitise import sanitised_line

if TYPE_CHECKING:  # types only: lines need no rich
    from rich.console import Console, RenderableType

MAX_SHOWN_TASKS = 8
"""Maximum running tasks that are shown."""


@contextmanager
def progress_on(err: TextIO, tasks: int, done: int) -> Iterator[BatchProgress]:
    """Show the progress of a batch of `tasks`, of which `done` are already finished."""
    if not err.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield LineProgress(partial(_print_line, err), tasks, done)
        return
    from rich.console import Console  # noqa: PLC0415  # deferred: lines need no rich
    from rich.live import Live  # noqa: PLC0415  # deferred: as above

    console = Console(file=err)
    progress = BarProgress(console, tasks, done)
    with Live(get_renderable=progress.renderable, console=console, refresh_per_second=4, transient=True):
        yield progress


def _print_line(err: TextIO, text: str) -> None:
    with suppress(OSError):  # a log that nobody takes, or a full disk, ends no batch
        print(f"ebb: {text}", file=err, flush=True)


class LineProgress:
    """Prints a line for each finished task."""

    def __init__(self, tell: Callable[[str], None], tasks: int, done: int) -> None:
        """`tell` prints a line."""
        self._tell = tell
        self._tasks, self._done, self._failed, self._cost = tasks, done, 0, 0.0
        self._told = set[str]()
        if done:
            self._tell(f"{done} of {tasks} are done already")

    def begin(self, run: TaskRun, *, goes_on: bool) -> None:
        """Print nothing when a task starts: there may be thousands."""

    def show(self, run: TaskRun, event: Event) -> None:
        if isinstance(event, Noticed) and event.text not in self._told:
            self._told.add(event.text)  # what is so in each of a thousand tasks is told once
            self._tell(sanitised_line(f"{run.task.id}: {event.text}"))

    def end(self, run: TaskRun) -> None:
        outcome = run.outcome
        self._cost += outcome.cost or 0.0
        self._done += run.is_done
        self._failed += run.is_done and outcome.exit_code != 0
        cost = f"  {outcome.cost:.3f} USD" if outcome.cost else ""
        why = f"  {outcome.error.message}" if outcome.error is not None else ""
        took = f"{time.time() - run.started:.1f} s"
        line = f"[{self._done}/{self._tasks}] {run.task.id}  {outcome.stop_reason}  {took}{cost}{why}"
        self._tell(sanitised_line(line))


class BarProgress(LineProgress):
    """Also shows a progress bar and the running tasks."""

    def __init__(self, console: "Console", tasks: int, done: int) -> None:
        super().__init__(lambda text: console.print(text, markup=False, highlight=False), tasks, done)
        self._first, self._started = done, time.monotonic()
        self._running: dict[str, tuple[float, str]] = {}
        """Start time and current activity of each running task, by id."""

    def begin(self, run: TaskRun, *, goes_on: bool) -> None:
        self._running[run.task.id] = run.started, "goes on" if goes_on else "begins"

    def show(self, run: TaskRun, event: Event) -> None:
        super().show(run, event)
        does = {ToolStarted: "name", RetryScheduled: "reason"}.get(type(event))
        if does is not None:
            self._running[run.task.id] = run.started, str(getattr(event, does))

    def end(self, run: TaskRun) -> None:
        self._running.pop(run.task.id, None)
        super().end(run)

    def renderable(self) -> "RenderableType":
        """The current lines at the bottom of the screen."""
        from rich.console import Group  # noqa: PLC0415  # deferred: lines need no rich
        from rich.progress_bar import ProgressBar  # noqa: PLC0415  # deferred: as above
        from rich.text import Text  # noqa: PLC0415  # deferred: as above

        shown = list(self._running.items())[:MAX_SHOWN_TASKS]
        more = len(self._running) - len(shown)
        lines = [f"  {id}  {does}  {time.time() - since:.0f} s" for id, (since, does) in shown]
        return Group(
            ProgressBar(self._tasks, self._done, width=50),
            *(Text(sanitised_line(line), no_wrap=True, overflow="ellipsis") for line in (self._summary, *lines)),
            *([Text(f"  and {more} more")] if more else []),
        )

    @property
    def _summary(self) -> str:
        """Counts, cost and remaining time."""
        parts = [f"{self._done} of {self._tasks}", f"{len(self._running)} running"]
        parts += [f"{self._failed} failed"] if self._failed else []
        parts += [f"{self._cost:.2f} USD"] if self._cost else []
        if ended := self._done - self._first:
            left = (time.monotonic() - self._started) / ended * (self._tasks - self._done)
            parts.append(f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left")
        return ", ".join(parts)
