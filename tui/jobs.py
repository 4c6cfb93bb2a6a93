"""The job queue of the full-screen app. Its first job opens the first session."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.worker import Worker

from ebbtide.agent.errors import AgentError
from ebbtide.tui.commands import Invocation
from ebbtide.tui.session.job_queue import REPLACING_COMMANDS, JobQueue
from ebbtide.tui.startup import FirstSession, open_first, resolve_first
from ebbtide.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:  # types only: what a session and its commands are made of is loaded behind the first paint
    from ebbtide.tui.screen_context import ScreenContext
    from ebbtide.tui.session.controller import SessionController

_YOUNG = (5_000, 5, 1_000)
"""Garbage collection thresholds once all modules are loaded. Each collection delays keys and drawing, longer with
more objects."""


class Jobs(JobQueue):
    """Runs requests made before the session is open as soon as it is."""

    def __init__(
        self, app: App[Any], first: FirstSession, load: Callable[[], object], context: "Callable[[], ScreenContext]"
    ) -> None:
        """`load` imports what sessions need, in a thread; `desk` is not called before that."""
        super().__init__()
        self._app = app
        self._load = load
        self._asked_desk = context
        self.first = first
        """How the first session is opened, unless another one is chosen."""
        self.refused: AgentError | None = None
        """Why the first session could not be opened."""
        self.is_busy = True
        self.is_loaded = self.is_open = False
        """Whether the session modules are loaded, and whether a first session was opened."""
        self._early: list[str] = []
        """Messages sent before loading finished."""
        self._due: list[Invocation] = []
        """Commands given before there was a session."""

    @property
    def _desk(self) -> "ScreenContext":
        return self._asked_desk()

    @property
    def controller(self) -> "SessionController":
        return self._desk.controller

    # The first job

    def begin(self) -> None:
        self.start(self._open_first)

    async def _open_first(self) -> None:
        await asyncio.to_thread(self._load)  # in a thread: keys are taken meanwhile
        gc.set_threshold(*_YOUNG)
        if not any(screen.is_attached for screen in self._app.screen_stack):  # it was told to end meanwhile
            return
        context = self._desk
        try:
            self.first = await resolve_first(context, self.first)
            self.is_loaded = True
            for text in self._early:
                self.take(text)
            self.first = await open_first(context, self.first)
        except AgentError as error:
            self.refused = error
            context.controller.queue.clear()
            context.showing.end()
            self._app.exit()
            return
        self.is_open = True
        context.prompt.offer_again()
        for invocation in self._due:
            if invocation.command.when_busy:
                self.invoke(invocation)
            else:
                await self.do(invocation)

    def take(self, text: str) -> None:
        if self.is_loaded:
            super().take(text)
        else:
            self._early.append(text)

    def invoke(self, invocation: Invocation) -> None:
        if self.is_open:
            super().invoke(invocation)
            return
        if self.is_loaded and invocation.command.name in REPLACING_COMMANDS:
            self.interrupt()
        self._due.append(invocation)

    # Running and showing jobs

    def run_job(self, work: Coroutine[object, object, None]) -> Worker[None]:
        return self._app.run_worker(work, group="job")

    def run_in_background(self, work: Coroutine[object, object, None]) -> Worker[None]:
        return self._app.run_worker(work, group="aside")

    async def do(self, invocation: Invocation) -> None:
        from ebbtide.tui.actions.registry import ACTIONS  # noqa: PLC0415  # deferred: behind the first paint

        await ACTIONS[invocation.command.name](self._desk, invocation.argument)

    async def open_session(self) -> bool:
        return await self.controller.open(self.first.resume, self.first.model)

    def on_message_queued(self, *, later: bool) -> None:
        self._app.query_one(TranscriptView).go_end()

    def return_queue_to_prompt(self) -> None:
        """Put the queue before the text in the prompt."""
        context = self._desk
        if context.controller.queue:
            context.prompt.prepend(context.controller.queue.take_back())

    def restore_to_prompt(self, written: str) -> None:
        if not self._desk.prompt.text:
            self._desk.prompt.set_text(written)

    # Shutdown

    def interrupt(self) -> None:
        """Interrupt the running job soon. The queue is not sent."""
        self._due.clear()
        self.stop_work()

    async def leave(self) -> None:
        """Stop the running job, close the session and exit the app, which returns the session's id if it has
        messages."""
        context = self._desk
        id = await self.end(context.prompt.text)
        context.showing.end()
        self._app.exit(id)
