"""Runs the user's jobs one at a time, sending queued messages after each."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ebbtide.agent.errors import AgentError
from ebbtide.tui.session.greeter import GreetingCollector
from ebbtide.tui.session.keep_alive import CacheKeepAlive
from ebbtide.tui.slash_commands import Invocation, UnknownCommand, custom_command_name, parse_command

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.session import Session
    from ebbtide.tui.session.controller import SessionController


class BackgroundJobWaiter:
    """Waits for background jobs to end while the session is idle, that is, between `begin` and `end`."""

    def __init__(self, get_controller: "Callable[[], SessionController]", wake: Callable[[], None]) -> None:
        """`wake` starts a turn in which the model reacts to a job that has ended."""
        self._get_controller = get_controller
        self._wake = wake
        self._task: asyncio.Task[None] | None = None

    def begin(self, *, was_stopped: bool) -> None:
        """Start waiting, because the session is now idle. `was_stopped`: whether the user interrupted the last turn. If
        so, jobs that have already ended are ignored."""
        session = self._get_controller().session
        if session is not None and session.limits.wakes_on_job_end:
            ended_jobs = tuple(session.background_jobs.unreported_ends) if was_stopped else ()
            self._task = asyncio.create_task(self._wait(session, ended_jobs))

    def end(self) -> None:
        """Stop waiting, because the session is now busy."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _wait(self, session: "Session", ended_jobs: tuple[str, ...]) -> None:
        await session.background_jobs.wait_for_end(ended_jobs)
        self._task = None  # the work started next must not cancel this task
        self._wake()


EXIT_TIMEOUT_S = 5.0
"""How long to wait for an interrupted turn to end when exiting, in seconds."""

_SESSION_COMMANDS = frozenset(("resume", "sessions", "clear", "fork", "model", "rewind"))
"""Commands that switch to another session."""
SESSION_INDEPENDENT_COMMANDS = frozenset(("resume", "sessions", "clear"))
"""Session commands that do not depend on the current session. They cancel the opening of another session."""


class RunningJob(Protocol):
    def cancel(self) -> object: ...


class JobQueue(ABC):
    """Runs jobs and sends queued messages. Each front end defines how work is started and how results are shown."""

    STOP_KEY = "Esc"

    def __init__(self) -> None:
        self.is_busy = False
        """Whether a job is running. If so, messages are queued."""
        self.is_paused = False
        """Whether queued messages wait until the user sends them."""
        self._job: RunningJob | None = None
        self._running_command = ""
        """The running command, if any."""
        self._pending_commands: deque[Invocation] = deque()
        """Commands entered while another session was being opened. They will be run in that session."""
        self._keep_alive = CacheKeepAlive(lambda: self.controller)
        self._background_job_waiter = BackgroundJobWaiter(
            lambda: self.controller, lambda: self.start(lambda: self.controller.continue_after_jobs())
        )
        self._was_stopped = False
        """Whether the user interrupted the last job."""
        self.greeter = GreetingCollector(lambda: self.controller)

    # To be defined by the front end

    @property
    @abstractmethod
    def controller(self) -> "SessionController": ...

    @abstractmethod
    def run_job(self, work: Coroutine[object, object, None]) -> RunningJob:
        """Start a job. If it raises an exception, the program ends with a report."""

    @abstractmethod
    def run_in_background(self, work: Coroutine[object, object, None]) -> object:
        """Start work that runs in parallel with the current job. If it raises an exception, the program ends with a
        report."""

    @abstractmethod
    async def run_invocation(self, invocation: Invocation) -> None: ...

    @abstractmethod
    async def open_session(self) -> bool:
        """Open a session if there is none. On failure, show why and return False."""

    @abstractmethod
    def on_message_queued(self, *, later: bool) -> None:
        """Called when a message has been queued but not sent yet."""

    @abstractmethod
    def return_queue_to_prompt(self) -> None:
        """Move the queued messages into the prompt, if possible."""

    @abstractmethod
    def restore_to_prompt(self, text: str) -> None:
        """Put text that could not be handled back into the prompt, provided the prompt is empty."""

    # Running jobs one at a time

    def start(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run the work, if any, then send the queued messages."""
        self._keep_alive.end()
        self._background_job_waiter.end()
        self._was_stopped = False
        self.is_paused, self.is_busy = False, True
        self._job = self.run_job(self._run(work))

    async def _run(self, work: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if work is not None:
                await work()
            while self._pending_commands:
                await self._run_command(self._pending_commands.popleft())
            self._running_command = ""
            if not self.is_paused:
                await self.controller.resume_turn()
            while self.controller.queue and not self.is_paused and await self._send_next():
                pass
        except AgentError as error:
            self.controller.show_failure(error)
        finally:
            self.is_busy, self._running_command = False, ""
            self._pending_commands.clear()
        self.return_queue_to_prompt()
        self._keep_alive.begin()
        self._background_job_waiter.begin(was_stopped=self._was_stopped)

    async def _send_next(self) -> bool:
        if self.controller.session is None and not await self.open_session():
            return False
        return await self.controller.run_turn(self.controller.queue.pop())

    # Input

    def handle_input(self, text: str) -> None:
        """Handle input from the user: a command or a message."""
        session, name = self.controller.session, custom_command_name(text)
        extensions = session.extensions if session is not None and name else None
        if extensions is not None and extensions.find_by_name(name) is not None:
            self.send(text)
            return
        match parse_command(self.greeter.expand_session_number(text)):
            case UnknownCommand() if name and session is None:
                self.restore_to_prompt(text)  # the session that is being opened may have this command
            case UnknownCommand() as unknown:
                self.controller.show_notice(unknown.message)
            case Invocation() as invocation:
                self.invoke(invocation)
            case None:
                self.send(text)

    def send(self, text: str, *, later: bool = False) -> None:
        """Send a message at once or, during a turn, with the turn's next step. With `later`, send it after the turn."""
        self.controller.queue.add(text, is_later=later)
        self.on_message_queued(later=later)
        if not self.is_busy:
            self.start()

    def invoke(self, invocation: Invocation) -> None:
        """Run a command at once, as the next job, or in the session that is being opened. If the command cannot run
        because of the running job, say so instead."""
        is_opening = self._running_command in _SESSION_COMMANDS
        if invocation.command.can_run_during_turn and not (is_opening and invocation.command.needs_session):
            self.run_in_background(self.with_error_notice(self.run_invocation(invocation)))
        elif is_opening:
            if invocation.command.name in SESSION_INDEPENDENT_COMMANDS:
                self.stop_work()
            self._pending_commands.append(invocation)
        elif self.is_busy:
            name = invocation.command.name
            self.controller.show_notice(
                f"`/{name}` has to wait until the session is idle. {self.STOP_KEY} interrupts it."
            )
            if invocation.argument:
                self.restore_to_prompt(invocation.source_text)
        else:
            self._running_command = invocation.command.name
            self.start(lambda: self._run_command(invocation))

    async def _run_command(self, invocation: Invocation) -> None:
        self._running_command = invocation.command.name
        await self.run_invocation(invocation)

    async def with_error_notice(self, work: Awaitable[None]) -> None:
        """Do the work. Errors are shown as a notice and do not end a running turn."""
        try:
            await work
        except AgentError as error:
            self.controller.show_notice(str(error))

    def stop_work(self) -> None:
        """Interrupt the current work. Commands waiting for a session to open are dropped, and queued messages go back
        to the prompt."""
        self._pending_commands.clear()
        self._was_stopped = True
        self.return_queue_to_prompt()
        self.controller.interrupt()

    # Exit

    async def close_session(self, prompt_text: str) -> str | None:
        """Stop the current work and close the session. Returns its id, if it has messages. `prompt_text`: the prompt's
        text, which is saved."""
        controller = self.controller
        controller.unsent_text.stash(prompt_text)
        self._background_job_waiter.end()
        if self.is_busy:
            controller.stop_turn_for_exit()
            with suppress(TimeoutError):
                await asyncio.wait_for(controller.wait_until_idle(), EXIT_TIMEOUT_S)
        await self.stop()
        await self._keep_alive.end_and_wait()
        session = controller.session
        session_id = session.id if session is not None and session.history.messages else None
        await controller.close("prompt_input_exit")
        return session_id

    async def stop(self) -> None:
        """Cancel the running job. Queued messages wait until the user sends them."""
        if self.is_busy and self._job is not None:
            self._job.cancel()
