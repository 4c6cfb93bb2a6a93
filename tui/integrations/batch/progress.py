"""Shows the progress of a batch: a bar and the running tasks on a terminal, or else a line for each finished task."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TextIO

from ebbtide.agent.events.session import Event, Noticed, RetryScheduled, ToolStarted
from ebbtide.agent.integrations.batch.batch import BatchProgress
from ebbtide.agent.integrations.batch.task_run import TaskRun
from ebbtide.tui.text.sanitise import sanitise_line

if TYPE_CHECKING:  # only the progress bar needs rich
    from rich.console import Console, RenderableType

MAX_VISIBLE_TASKS = 8
"""Maximum number of running tasks that are shown."""


@contextmanager
def show_progress(terminal: TextIO, task_count: int, finished_count: int) -> Iterator[BatchProgress]:
    """Show the progress of a batch of `task_count` tasks, `finished_count` of which were finished before."""
    if not terminal.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        yield LineProgress(partial(_print_line, terminal), task_count, finished_count)
        return
    from rich.console import Console  # noqa: PLC0415  # deferred: lines need no rich
    from rich.live import Live  # noqa: PLC0415  # deferred: as above

    console = Console(file=terminal)
    progress = BarProgress(console, task_count, finished_count)
    with Live(get_renderable=progress.render, console=console, refresh_per_second=4, transient=True):
        yield progress


def _print_line(terminal: TextIO, text: str) -> None:
    with suppress(OSError):  # an unread log or a full disk must not end the batch
        print(f"ebb: {text}", file=terminal, flush=True)


class LineProgress:
    """Prints a line for each finished task."""

    def __init__(self, print_line: Callable[[str], None], task_count: int, finished_count: int) -> None:
        self._print_line = print_line
        self._task_count = task_count
        self._finished_count = finished_count
        self._failed_count = 0
        self._cost = 0.0
        self._reported_notices = set[str]()
        if finished_count:
            self._print_line(f"already done: {finished_count} of {task_count}")

    def begin(self, run: TaskRun, *, is_resumed: bool) -> None:
        """Do nothing: there may be thousands of tasks."""

    def show(self, run: TaskRun, event: Event) -> None:
        if isinstance(event, Noticed) and event.text not in self._reported_notices:
            self._reported_notices.add(event.text)  # a notice that many tasks repeat is printed once
            self._print_line(sanitise_line(f"{run.task.id}: {event.text}"))

    def end(self, run: TaskRun) -> None:
        outcome = run.outcome
        self._cost += outcome.cost or 0.0
        self._finished_count += run.is_done
        self._failed_count += run.is_done and outcome.exit_code != 0
        cost = f"  {outcome.cost:.3f} USD" if outcome.cost else ""
        error_text = f"  {outcome.error.message}" if outcome.error is not None else ""
        elapsed = f"{time.time() - run.started_at:.1f} s"
        count = f"[{self._finished_count}/{self._task_count}]"
        line = f"{count} {run.task.id}  {outcome.stop_reason}  {elapsed}{cost}{error_text}"
        self._print_line(sanitise_line(line))


class BarProgress(LineProgress):
    """Shows a progress bar and the running tasks too."""

    def __init__(self, console: "Console", task_count: int, finished_count: int) -> None:
        super().__init__(lambda text: console.print(text, markup=False, highlight=False), task_count, finished_count)
        self._initial_count, self._start_time = finished_count, time.monotonic()
        self._running_tasks: dict[str, tuple[float, str]] = {}
        """Start time and current activity of each running task, by task id."""

    def begin(self, run: TaskRun, *, is_resumed: bool) -> None:
        self._running_tasks[run.task.id] = run.started_at, "resumed" if is_resumed else "started"

    def show(self, run: TaskRun, event: Event) -> None:
        super().show(run, event)
        attribute = {ToolStarted: "name", RetryScheduled: "reason"}.get(type(event))
        if attribute is not None:
            self._running_tasks[run.task.id] = run.started_at, str(getattr(event, attribute))

    def end(self, run: TaskRun) -> None:
        self._running_tasks.pop(run.task.id, None)
        super().end(run)

    def render(self) -> "RenderableType":
        """Render the lines at the bottom of the screen."""
        from rich.console import Group  # noqa: PLC0415  # deferred: lines need no rich
        from rich.progress_bar import ProgressBar  # noqa: PLC0415  # deferred: as above
        from rich.text import Text  # noqa: PLC0415  # deferred: as above

        visible_tasks = list(self._running_tasks.items())[:MAX_VISIBLE_TASKS]
        hidden_count = len(self._running_tasks) - len(visible_tasks)
        lines = [
            f"  {task_id}  {activity}  {time.time() - start_time:.0f} s"
            for task_id, (start_time, activity) in visible_tasks
        ]
        return Group(
            ProgressBar(self._task_count, self._finished_count, width=50),
            *(Text(sanitise_line(line), no_wrap=True, overflow="ellipsis") for line in (self._summary, *lines)),
            *([Text(f"  and {hidden_count} more")] if hidden_count else []),
        )

    @property
    def _summary(self) -> str:
        """Format the counts, the cost and the remaining time."""
        phrases = [f"{self._finished_count} of {self._task_count}", f"{len(self._running_tasks)} running"]
        phrases += [f"{self._failed_count} failed"] if self._failed_count else []
        phrases += [f"{self._cost:.2f} USD"] if self._cost else []
        if new_count := self._finished_count - self._initial_count:
            remaining_seconds = (
                (time.monotonic() - self._start_time) / new_count * (self._task_count - self._finished_count)
            )
            phrases.append(
                f"about {remaining_seconds / 60:.0f} min left"
                if remaining_seconds > 90
                else f"about {remaining_seconds:.0f} s left"
            )
        return ", ".join(phrases)
