"""What is to be done for the user: one job at a time, and after each what waits in the queue."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.worker import Worker

from agent.errors import AgentError
from tui.commands import Invocation, Unknown, parse
from tui.startup import First, open_first, settled
from tui.widgets.transcript import Transcript

if TYPE_CHECKING:  # a type only: what a session and its commands are made of is loaded behind the first paint
    from tui.actions.desk import CommandContext

_PATIENCE = 5.0
"""Seconds that leaving waits for an interrupted turn to end."""


class Jobs:
    """The first job opens the first session; what is asked for before there is one is done as soon as there is."""

    def __init__(
        self, app: App[Any], first: First, load: Callable[[], object], desk: "Callable[[], CommandContext]"
    ) -> None:
        """`load` loads what sessions are made of, in a thread. `desk` is not asked for before that."""
        self._app = app
        self._load = load
        self._asked_desk = desk
        self.first = first
        """What a session begins with where no other is chosen."""
        self.refused: AgentError | None = None
        """Why there is no first session."""
        self.is_busy = True
        """A job runs: what is said now waits in the queue."""
        self.is_loaded = self.is_open = False
        """All is there that sessions are made of; there was a first session."""
        self._early: list[str] = []
        """What was said before all was loaded."""
        self._due: list[Invocation] = []
        """Commands that were given before there was a session."""
        self._job: Worker[None] | None = None

    @property
    def _desk(self) -> "CommandContext":
        return self._asked_desk()

    # The first job

    def begin(self) -> None:
        self._start(self._open_first)

    async def _open_first(self) -> None:
        await asyncio.to_thread(self._load)  # in a thread: keys are taken meanwhile
        desk = self._desk
        try:
            self.first = await settled(desk, self.first)
            self.is_loaded = True
            for text in self._early:
                self.take(text)
            self.first = await open_first(desk, self.first)
        except AgentError as error:
            self.refused = error
            desk.talk.queue.clear()
            desk.showing.end()
            self._app.exit()
            return
        self.is_open = True
        desk.prompt.offer_again()
        for invocation in self._due:
            if invocation.command.when_busy:
                self.invoke(invocation)
            else:
                await self._do(invocation)

    # One after the other

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self.is_busy = True
        self._job = self._app.run_worker(self._run(work), group="job")

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            await self._desk.talk.go_on()
            while self._desk.talk.queue and await self._say_next():
                pass
        except AgentError as error:
            self._desk.talk.fail(error)
        finally:
            self.is_busy = False
        self.take_back_queue()

    async def _say_next(self) -> bool:
        talk = self._desk.talk
        if talk.session is None and not await talk.open(self.first.resume, self.first.model):
            return False
        return await talk.say(talk.queue.pop())

    async def _nothing(self) -> None:
        """The job of only sending what is queued."""

    # What is asked for

    def take(self, text: str) -> None:
        """Does what was written: a command, or something to say."""
        if not self.is_loaded:
            self._early.append(text)
            return
        match parse(text):
            case Unknown() as unknown:
                self._desk.talk.notice(unknown.message)
            case Invocation() as invocation:
                self.invoke(invocation)
            case None:
                self.send(text)

    def send(self, text: str, *, later: bool = False) -> None:
        """Says it at once, or with the next step of what runs; `later` only when that is over."""
        self._desk.talk.queue.add(text, later=later)
        self._app.query_one(Transcript).go_end()
        if not self.is_busy:
            self._start(self._nothing)

    def invoke(self, invocation: Invocation) -> None:
        """Does what a command asks for, at once or as the next job; what has to wait is told."""
        if not self.is_open:
            self._due.append(invocation)
        elif invocation.command.when_busy:
            self._app.run_worker(self._do_aside(invocation), group="aside")
        elif self.is_busy:
            desk, name = self._desk, invocation.command.name
            desk.talk.notice(f"`/{name}` has to wait until the session is free. Esc interrupts it.")
            if invocation.argument and not desk.prompt.text:
                desk.prompt.put(invocation.written)
        else:
            self._start(lambda: self._do(invocation))

    async def _do(self, invocation: Invocation) -> None:
        from tui.actions.registry import ACTIONS  # noqa: PLC0415  # deferred: behind the first paint

        await ACTIONS[invocation.command.name](self._desk, invocation.argument)

    async def _do_aside(self, invocation: Invocation) -> None:
        try:
            await self._do(invocation)
        except AgentError as error:
            self._desk.talk.notice(str(error))  # a turn may run, and goes on

    # The end of them

    def take_back_queue(self) -> None:
        """Puts what waits into the prompt, before what is being written there."""
        desk = self._desk
        if desk.talk.queue:
            desk.prompt.put_first(desk.talk.queue.take_back())

    def interrupt(self) -> None:
        """Ends soon what runs. What waits is not sent."""
        self.take_back_queue()
        self._desk.talk.interrupt()

    async def leave(self) -> None:
        """Ends what runs, closes the session, and the app with it, which gives the session's id if anything was said
        in it."""
        desk = self._desk
        talk = desk.talk
        talk.put_by(desk.prompt.text)
        if self.is_busy and self._job is not None:
            talk.leave_turn()
            with suppress(TimeoutError):
                await asyncio.wait_for(talk.rests(), _PATIENCE)
            self._job.cancel()  # what is left of it waits for an answer of the user
        session = talk.session
        id = session.id if session is not None and session.history.messages else None
        await talk.close()
        desk.showing.end()
        self._app.exit(id)
