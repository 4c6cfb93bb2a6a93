"""The job queue of the full-screen app. Its first job opens the first session."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.worker import Worker

from ebbtide.agent.errors import AgentError
from ebbtide.tui import commands
from ebbtide.tui.session.job_queue import SESSION_INDEPENDENT_COMMANDS, JobQueue
from ebbtide.tui.slash_commands import Invocation
from ebbtide.tui.startup import FirstSession, open_first_session, resolve_first_session
from ebbtide.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:  # session and command modules load only after the first paint
    from ebbtide.tui.screen_context import ScreenContext
    from ebbtide.tui.session.controller import SessionController

_GC_THRESHOLDS = (5_000, 5, 1_000)
"""Garbage collection thresholds, used once all modules are loaded. With fewer collections, keys and drawing are delayed
less often, although each delay is longer."""


def _restart_collection() -> None:
    """Collect garbage again, which was off while modules loaded. They stay, so what they have created is never looked
    through: the first collection would take as long as a fifth of the start."""
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


class AppJobs(JobQueue):
    """The job queue of the app. Messages and commands entered before the session is open are handled once it opens."""

    def __init__(
        self,
        app: App[Any],
        first_session: FirstSession,
        load_modules: Callable[[], object],
        get_context: "Callable[[], ScreenContext]",
    ) -> None:
        """`load_modules` imports the session modules and is run in a thread. `get_context` is not called before it has
        finished."""
        super().__init__()
        self._app = app
        self._load_modules = load_modules
        self._get_context = get_context
        self.first_session = first_session
        """Which session to open first. If opening fails, the next attempt opens the same session."""
        self.opening_error: AgentError | None = None
        """Why the first session could not be opened."""
        self.is_busy = True
        self.is_loaded = self.is_session_open = False
        """Whether the session modules are loaded, and whether a session has been opened."""
        self._early_texts: list[str] = []
        """Text entered before loading finished."""
        self._early_commands: list[Invocation] = []
        """Commands entered before the session was open."""

    @property
    def _context(self) -> "ScreenContext":
        return self._get_context()

    @property
    def controller(self) -> "SessionController":
        return self._context.controller

    # The first job

    def start_first_job(self) -> None:
        self.start(self._open_first_session)

    async def _open_first_session(self) -> None:
        await asyncio.to_thread(self._load_modules)  # keys are handled meanwhile
        if not any(screen.is_attached for screen in self._app.screen_stack):  # the app was closed meanwhile
            return
        context = self._context
        _restart_collection()
        try:
            self.first_session = await resolve_first_session(context, self.first_session)
            self.is_loaded = True
            for text in self._early_texts:
                self.handle_input(text)
            self.first_session = await open_first_session(context, self.first_session)
        except AgentError as error:
            self.opening_error = error
            context.controller.queue.clear()
            context.presenter.schedule.stop()
            self._app.exit()
            return
        self.is_session_open = True
        context.prompt.refresh_completions()
        for invocation in self._early_commands:
            if invocation.command.can_run_during_turn:
                self.invoke(invocation)
            else:
                await self.run_invocation(invocation)

    def handle_input(self, text: str) -> None:
        if self.is_loaded:
            super().handle_input(text)
        else:
            self._early_texts.append(text)

    def invoke(self, invocation: Invocation) -> None:
        if self.is_session_open:
            super().invoke(invocation)
            return
        if self.is_loaded and invocation.command.name in SESSION_INDEPENDENT_COMMANDS:
            self.interrupt()
        self._early_commands.append(invocation)

    # Running and showing jobs

    def run_job(self, work: Coroutine[object, object, None]) -> Worker[None]:
        return self._app.run_worker(work, group="job")

    def run_in_background(self, work: Coroutine[object, object, None]) -> Worker[None]:
        return self._app.run_worker(work, group="aside")

    async def run_invocation(self, invocation: Invocation) -> None:
        await commands.registry.ACTIONS[invocation.command.name](self._context, invocation.argument)

    async def open_session(self) -> bool:
        return await self.controller.open(self.first_session.resume, self.first_session.model)

    def on_message_queued(self, *, later: bool) -> None:
        self._app.query_one(TranscriptView).go_to_end()

    def return_queue_to_prompt(self) -> None:
        """Move the queued messages to the prompt, before its text."""
        context = self._context
        if context.controller.queue:
            context.prompt.prepend(context.controller.queue.take_all())

    def restore_to_prompt(self, text: str) -> None:
        if not self._context.prompt.text:
            self._context.prompt.set_text(text)

    # Exit

    def interrupt(self) -> None:
        """Interrupt the running job. Commands waiting for the first session are dropped."""
        self._early_commands.clear()
        self.stop_work()

    async def exit(self) -> None:
        """Stop the running job, close the session and exit the app. The app then returns the session's id, if the
        session has messages."""
        context = self._context
        session_id = await self.close_session(context.prompt.text)
        context.presenter.schedule.stop()
        self._app.exit(session_id)
