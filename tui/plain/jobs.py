"""The job queue of line mode."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Sequence

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.actions.registry import ACTIONS
from ebbtide.tui.commands import Invocation
from ebbtide.tui.plain.command_context import LineContext
from ebbtide.tui.plain.reader import PromptReader
from ebbtide.tui.session.job_queue import JobQueue


class LineJobs(JobQueue):
    """A job queue that reads and prints lines."""

    STOP_KEY = "Ctrl-C"
    context: LineContext
    model: str | None
    """The model for new sessions."""

    def __init__(self) -> None:
        super().__init__()
        self._reader: PromptReader | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._commands = 0
        """Number of commands running in parallel to a job."""
        self._failure: BaseException | None = None
        """The exception that ends the program."""

    @abstractmethod
    def print_lines(self, lines: Sequence[str]) -> None: ...

    @abstractmethod
    def prompt(self) -> None:
        """Show the current prompt."""

    def leave(self) -> None:
        """Stop all work and exit."""
        if self._reader is not None:
            self._reader.close()

    async def wait_until_done(self) -> None:
        """Return when nothing is left to do."""
        while self.is_busy or self._commands:
            await asyncio.wait(set(self._tasks))

    def start_background(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        """Start work other than a command, in parallel to a job."""
        return self._begin(self.with_error_notice(work))

    def run_job(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = self._begin(work)
        self.prompt()
        return task

    def run_in_background(self, work: Coroutine[object, object, None]) -> object:
        self._commands += 1
        task = self._begin(self._run_counted(work))
        self.prompt()
        return task

    def _begin(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        async def guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  # a bug ends the program, which tells it
                self._failure = error
                self.leave()

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_counted(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._commands -= 1
            self.prompt()

    async def do(self, invocation: Invocation) -> None:
        await ACTIONS[invocation.command.name](self.context, invocation.argument)

    async def open_session(self) -> bool:
        return await self.controller.open(None, self.model)

    def on_message_queued(self, *, later: bool) -> None:
        if self.is_busy:
            self.print_lines((f"Queued: {'it is sent when the turn is over' if later else 'the model sees it next'}.",))

    def return_queue_to_prompt(self) -> None:
        """If the prompt cannot be edited, the messages stay queued."""
        self.prompt()
        queue = self.controller.queue
        if queue and self._reader is not None:
            if self._reader.prefill("\n\n".join(item.text for item in queue.items)):
                queue.take_back()
                self.print_lines(("What was not sent yet is in the prompt again.",))
            else:
                self.print_lines((f"{pluralize(len(queue), 'message')} not sent yet. An empty line sends what waits.",))

    def restore_to_prompt(self, written: str) -> None:
        if self._reader is not None and not self._reader.draft:
            self._reader.prefill(written)

    async def stop(self) -> None:
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
