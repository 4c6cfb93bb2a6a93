"""Runs one user job at a time, followed by the queue."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands import Invocation, Unknown, custom_name, parse
from ebbtide.tui.session.greeter import Greeter
from ebbtide.tui.session.job_waker import JobWaker
from ebbtide.tui.session.keep_alive import CacheKeepAlive

if TYPE_CHECKING:  # a type only: what a session is made of is loaded behind the first paint
    from ebbtide.tui.session.controller import SessionController

LEAVE_TIMEOUT_S = 5.0
"""Seconds to wait for an interrupted turn when leaving."""

_SESSION_COMMANDS = frozenset(("resume", "sessions", "clear", "fork", "model", "rewind"))
"""Commands that switch to another session."""
REPLACING_COMMANDS = frozenset(("resume", "sessions", "clear"))
"""Of those, the ones independent of the current session: a session being opened is then abandoned."""


class RunningJob(Protocol):
    def cancel(self) -> object: ...


class JobQueue(ABC):
    """The front end defines how work is started and results are shown."""

    STOP_KEY = "Esc"

    def __init__(self) -> None:
        self.is_busy = False
        """Whether a job is running: messages then go to the queue."""
        self.is_held = False
        """Whether the queue is held until the user sends it."""
        self._job: RunningJob | None = None
        self._command = ""
        """The command being run, if any."""
        self._behind: deque[Invocation] = deque()
        """Commands given while another session was being opened, meant for that session."""
        self._cache = CacheKeepAlive(lambda: self.controller)
        self._waker = JobWaker(
            lambda: self.controller, lambda: self.start(lambda: self.controller.continue_after_jobs())
        )
        self._was_stopped = False
        """Whether the user interrupted the last job."""
        self.greeter = Greeter(lambda: self.controller)

    # What a front end says

    @property
    @abstractmethod
    def controller(self) -> "SessionController": ...

    @abstractmethod
    def run_job(self, work: Coroutine[object, object, None]) -> RunningJob:
        """Start it. An exception ends the program with a report."""

    @abstractmethod
    def run_in_background(self, work: Coroutine[object, object, None]) -> object:
        """Like `run_job`, in parallel to a job."""

    @abstractmethod
    async def do(self, invocation: Invocation) -> None: ...

    @abstractmethod
    async def open_session(self) -> bool:
        """Open a session if there is none, or show why that failed."""

    @abstractmethod
    def on_message_queued(self, *, later: bool) -> None:
        """Called when a message is queued; it is sent at once if idle."""

    @abstractmethod
    def return_queue_to_prompt(self) -> None:
        """Put the queue into the prompt, if possible."""

    @abstractmethod
    def restore_to_prompt(self, written: str) -> None:
        """Put text that could not be handled into the prompt if it is empty."""

    # One after the other

    def start(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        """Run the work, then send the queue."""
        self._cache.end()
        self._waker.end()
        self._was_stopped = False
        self.is_held, self.is_busy = False, True
        self._job = self.run_job(self._run(work))

    async def _run(self, work: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if work is not None:
                await work()
            while self._behind:
                await self._do(self._behind.popleft())
            self._command = ""
            if not self.is_held:
                await self.controller.resume_turn()
            while self.controller.queue and not self.is_held and await self._send_next():
                pass
        except AgentError as error:
            self.controller.fail(error)
        finally:
            self.is_busy, self._command = False, ""
            self._behind.clear()
        self.return_queue_to_prompt()
        self._cache.begin()
        self._waker.begin(was_stopped=self._was_stopped)

    async def _send_next(self) -> bool:
        if self.controller.session is None and not await self.open_session():
            return False
        return await self.controller.run_turn(self.controller.queue.pop())

    # What is asked for

    def take(self, text: str) -> None:
        """Handle the user's input: a command or a message."""
        session, name = self.controller.session, custom_name(text)
        extensions = session.extensions if session is not None and name else None
        if extensions is not None and extensions.find(name) is not None:
            self.send(text)
            return
        match parse(self.greeter.expand_session_number(text)):
            case Unknown() if name and session is None:
                self.restore_to_prompt(text)  # what is being opened may know it
            case Unknown() as unknown:
                self.controller.notice(unknown.message)
            case Invocation() as invocation:
                self.invoke(invocation)
            case None:
                self.send(text)

    def send(self, text: str, *, later: bool = False) -> None:
        """Send it at once, or with the next step of the running turn; `later` only after the turn."""
        self.controller.queue.add(text, later=later)
        self.on_message_queued(later=later)
        if not self.is_busy:
            self.start()

    def invoke(self, invocation: Invocation) -> None:
        """Run a command at once, as the next job, or after a session being opened; if it has to wait for anything
        else, say so."""
        is_opening = self._command in _SESSION_COMMANDS
        if invocation.command.when_busy and not (is_opening and invocation.command.of_session):
            self.run_in_background(self.with_error_notice(self.do(invocation)))
        elif is_opening:
            if invocation.command.name in REPLACING_COMMANDS:
                self.stop_work()
            self._behind.append(invocation)
        elif self.is_busy:
            name = invocation.command.name
            self.controller.notice(f"`/{name}` has to wait until the session is free. {self.STOP_KEY} interrupts it.")
            if invocation.argument:
                self.restore_to_prompt(invocation.source_text)
        else:
            self._command = invocation.command.name
            self.start(lambda: self._do(invocation))

    async def _do(self, invocation: Invocation) -> None:
        self._command = invocation.command.name
        await self.do(invocation)

    async def with_error_notice(self, work: Awaitable[None]) -> None:
        """Run the work; an error is shown as a notice, and a running turn continues."""
        try:
            await work
        except AgentError as error:
            self.controller.notice(str(error))

    def stop_work(self) -> None:
        """Interrupt the current work. Commands for a session being opened are dropped, and messages return to the
        prompt."""
        self._behind.clear()
        self._was_stopped = True
        self.return_queue_to_prompt()
        self.controller.interrupt()

    # The end of them

    async def end(self, written: str) -> str | None:
        """Stop the current work and close the session; return its id if it has messages. `written`: the prompt text."""
        controller = self.controller
        controller.unsent.stash(written)
        self._waker.end()
        if self.is_busy:
            controller.leave_turn()
            with suppress(TimeoutError):
                await asyncio.wait_for(controller.wait_until_idle(), LEAVE_TIMEOUT_S)
        await self.stop()
        await self._cache.over()
        session = controller.session
        id = session.id if session is not None and session.history.messages else None
        await controller.close("prompt_input_exit")
        return id

    async def stop(self) -> None:
        """Interrupt the work; whatever remains is waiting for the user."""
        if self.is_busy and self._job is not None:
            self._job.cancel()
