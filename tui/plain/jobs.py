"""The job queue of line mode."""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Coroutine, Sequence

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.commands.registry import ACTIONS
from ebbtide.tui.plain.command_context import LineContext
from ebbtide.tui.plain.reader import PromptReader
from ebbtide.tui.session.job_queue import JobQueue
from ebbtide.tui.slash_commands import Invocation


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
        self._running_command_count = 0
        """Number of commands running in parallel with a job."""
        self._failure: BaseException | None = None
        """The exception that ends the program."""

    @abstractmethod
    def print_lines(self, lines: Sequence[str]) -> None: ...

    @abstractmethod
    def show_prompt(self) -> None:
        """Show the current prompt."""

    def exit(self) -> None:
        """Stop all work and exit."""
        if self._reader is not None:
            self._reader.close()

    async def wait_until_done(self) -> None:
        """Wait until all work is done."""
        while self.is_busy or self._running_command_count:
            await asyncio.wait(set(self._tasks))

    def start_background(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        """Start work that is not a command and runs in parallel with a job."""
        return self._start_task(self.with_error_notice(work))

    def run_job(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = self._start_task(work)
        self.show_prompt()
        return task

    def run_in_background(self, work: Coroutine[object, object, None]) -> object:
        self._running_command_count += 1
        task = self._start_task(self._run_counted(work))
        self.show_prompt()
        return task

    def _start_task(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        async def run_guarded() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  # a bug ends the program, which reports it
                self._failure = error
                self.exit()

        task = asyncio.get_running_loop().create_task(run_guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run_counted(self, work: Awaitable[None]) -> None:
        try:
            await work
        finally:
            self._running_command_count -= 1
            self.show_prompt()

    async def run_invocation(self, invocation: Invocation) -> None:
        await ACTIONS[invocation.command.name](self.context, invocation.argument)

    async def open_session(self) -> bool:
        return await self.controller.open(None, self.model)

    def on_message_queued(self, *, later: bool) -> None:
        if self.is_busy and not self._running_command:
            self.print_lines((f"Queued: {'sent when the turn is over' if later else 'delivered at the next step'}.",))

    def return_queue_to_prompt(self) -> None:
        """Move queued messages to the prompt. If the prompt cannot be edited, they stay in the queue."""
        self.show_prompt()
        queue = self.controller.queue
        if queue and self._reader is not None:
            if self._reader.prefill("\n\n".join(item.text for item in queue.items)):
                queue.take_all()
                self.print_lines(("Queued messages are back in the prompt.",))
            else:
                self.print_lines((f"{pluralize(len(queue), 'message')} not sent yet. An empty line sends them.",))

    def restore_to_prompt(self, text: str) -> None:
        if self._reader is not None and not self._reader.draft:
            self._reader.prefill(text)

    async def stop(self) -> None:
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
