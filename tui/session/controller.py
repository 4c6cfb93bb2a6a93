"""Controls the displayed session: its view, its queue and switching to another session."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.agent.events.session import Event, Noticed, Steered, TurnFailed, TurnFinished
from ebbtide.agent.messages import Conversation, Note, Text, User
from ebbtide.agent.prompt.reminder_notes import JOB_ENDED_PROMPT
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.session.drafts import Drafts, UnsentText
from ebbtide.tui.session.queue import MessageQueue
from ebbtide.tui.session.session_opener import MESSAGES_PER_PAGE, SessionOpener, build_session_view, load_older_blocks
from ebbtide.tui.view.blocks import SessionView
from ebbtide.tui.view.reduce import apply_event, with_relative_paths
from ebbtide.tui.view.resumed import build_resumed_view
from ebbtide.tui.view.turn_total import TurnTimer, with_total

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.compose.sessions import OpeningKind, ProjectSessions
    from ebbtide.agent.hooks.session_hooks import EndReason
    from ebbtide.agent.session import Session


ResultT = TypeVar("ResultT")


class SessionController:
    """Controls one session at a time. Every event produces a new `view` and calls `on_change`."""

    def __init__(
        self,
        sessions: "ProjectSessions",
        on_change: Callable[[], None],
        drafts: Drafts | None = None,
        pastes: Pastes | None = None,
    ) -> None:
        self.sessions = sessions
        self.session: Session | None = None
        self.view = SessionView()
        self.queue = MessageQueue()
        """Messages to be sent at the next step or after the turn."""
        self.pastes = pastes or Pastes()
        """The paste placeholders in messages."""
        self.unsent_text = UnsentText(drafts or Drafts(None), self.queue, self.pastes, self._draft_session_id)
        self.is_busy = False
        """Whether a turn is running, or a session is being opened, closed or compacted."""
        self._idle_event = asyncio.Event()
        self._opener = SessionOpener(sessions, self._show_preview, self._show_opening_progress)
        self._on_change = on_change
        self._reading_lock = asyncio.Lock()
        """Held while older messages are being read."""
        self.on_blocks_prepended: Callable[[int], None] = lambda count: None
        """Called with the number of blocks added at the start of the view."""
        self.on_preview_painted: Callable[[], None] = lambda: None
        """Called when the view shows a preview of a session that is still being opened."""

    async def open_first_session(self, session_id: str | None, model: str | None) -> None:
        """Open the first session: a stored one, or a new one if `session_id` is None. Raises `AgentError`."""
        with self.busy_with("opening the session"):
            opened_session = await self._opener.open_unless_stopped(session_id, model, "first")
            if opened_session is not None:
                self._switch_to(*opened_session)
            else:
                await self._begin_new_session(model)

    async def _begin_new_session(self, model: str | None) -> None:
        """Open a new session after the user interrupted the opening of the first one."""
        self._switch_to(*await self._opener.open(None, model, "first"))
        self.on_preview_painted()
        self.show_notice("opening was interrupted. This is a new session; `/resume` opens an earlier one.")

    async def open(self, session_id: str | None = None, model: str | None = None) -> bool:
        """Replace the current session with a stored one or a new one. Returns whether that succeeded. If opening fails
        or is interrupted, the current session stays open. Failures are shown."""
        with self.busy_with("opening the session"):
            previous_id = self.session.id if self.session is not None else None
            is_reopening = previous_id is not None and session_id is not None and previous_id.startswith(session_id)
            self.unsent_text.save_in_progress("")  # the text stays in the prompt and then belongs to the opened session
            # The same session cannot be open twice. To reopen it, close it first.
            has_started = self.session is not None and self.session.hooks is not None and self.session.hooks.has_started
            opening: OpeningKind = "first" if not has_started else "reopened" if is_reopening else "replacement"
            problem = await self._try_close(None) if is_reopening else ""
            previous_view = self.view
            try:
                opened_session = (
                    await self._opener.open(session_id, model, opening, is_displayed=True)  # no other session is open
                    if is_reopening
                    else await self._opener.open_unless_stopped(session_id, model, opening)
                )
            except AgentError as error:
                self._show(replace(previous_view, is_busy=True, activity=self.view.activity))
                self.show_failure(error)
                if is_reopening:
                    await self._reopen(previous_id, opening)
                return False
            if opened_session is None and self.session is None:
                await self._begin_new_session(model)
                return True
            if opened_session is None:
                self._show(replace(previous_view, is_busy=True, activity=self.view.activity))
                self.on_preview_painted()
                return False
            problem = await self._try_close("clear" if session_id is None else "resume") or problem
            self._switch_to(*opened_session)
            if problem:
                self.show_notice(problem)
            return True

    async def _try_close(self, reason: "EndReason | None") -> str:
        """Close the session. Returns what could not be saved, or an empty string."""
        try:
            await self.close(reason)
        except AgentError as error:
            return str(error)
        return ""

    def _show_preview(self, conversation: Conversation) -> None:
        """Show the last messages of a session while it is being opened."""
        view = build_resumed_view(self.sessions.hide_secrets(conversation), self.folder)
        self._show(replace(view, is_busy=True, activity=self.view.activity))
        self.on_preview_painted()

    def _show_opening_progress(self, activity: str) -> None:
        self._show(replace(self.view, activity=activity))

    async def switch_to_open_session(self, session: "Session") -> None:
        """Switch to a session that is already open, and show its history."""
        self._switch_to(session, await build_session_view(self.sessions, session))

    def _switch_to(self, session: "Session", view: SessionView) -> None:
        """Switch to a session."""
        self.session = session
        session.set_listener(self.show_event)
        self._show(replace(view, model=session.model, mode=session.mode, cost=session.cost))
        for text in session.changes_while_closed:
            self.show_notice(text)

    async def load_older_messages(self, *, load_all: bool = False) -> None:
        """Add earlier messages to the view: one page, or all of them with `load_all`. Errors are shown. Without
        `load_all`, does nothing if a page is already being read."""
        if self._reading_lock.locked() and not load_all:
            return
        async with self._reading_lock:
            session, position = self.session, self.view.older_message_count
            if session is None or not position:
                return
            limit = position if load_all else MESSAGES_PER_PAGE
            try:
                remaining_count, blocks = await load_older_blocks(self.sessions, session.id, position, limit)
            except AgentError as error:
                if self.session is session and self.view.older_message_count == position:
                    self._show(self.view.with_read_problem(str(error)))
                if load_all:  # the row with the problem may be off-screen
                    self.show_notice(str(error))
                return
            if self.session is not session or self.view.older_message_count != position:
                return
            earlier_count = len(self.view.past_blocks)
            self.view = self.view.with_older_blocks(remaining_count, blocks)
            self.on_blocks_prepended(len(self.view.past_blocks) - earlier_count)

    async def measure_context(self, *, is_outdated: bool = False) -> None:
        """Measure the context of a resumed session before its first request, without asking the provider. Does nothing
        if the size is known or cannot be measured. `is_outdated`: whether the known size is no longer correct."""
        session = self.session
        if session is None or not session.history.messages:
            return
        try:
            overview = await self.sessions.overview(session.id, session.history)
        except AgentError:  # the first request will report the error
            return
        if self.session is session and (is_outdated or not self.view.used_tokens):
            self._show(self.view.with_overview(overview, is_estimate=session.history.anchor is None))

    def _draft_session_id(self) -> str | None:
        """The id of the session that unsent text is saved for; None before its first message."""
        has_begun = self.session is not None and (self.is_busy or self.session.history.messages)
        return self.session.id if self.session is not None and has_begun else None

    def take_draft(self) -> str:
        """Return the session's saved unsent text and delete it."""
        if self.session is None:
            return ""
        draft = self.unsent_text.take(self.session.id)
        if draft:
            self.show_notice("your unsent text is back in the prompt")
        return draft

    async def run_turn(self, text: str) -> bool:
        """Run a turn. Returns whether it ended with an answer."""
        if self.session is None:
            return False
        return await self._run_turn_events(
            self.session.send(text, self.pastes.attachments(text), pending_messages=self._take_steering_messages)
        )

    async def continue_after_jobs(self) -> None:
        """Run a turn in which the model reacts to background jobs that have ended."""
        if (
            self.session is not None
            and self.session.background_jobs.unreported_ends
            and not self.session.has_open_question
        ):
            await self._run_turn_events(
                self.session.send("", (Note(JOB_ENDED_PROMPT),), pending_messages=self._take_steering_messages)
            )

    async def resume_turn(self) -> None:
        """If the session was closed while a question was open, ask it again and continue the turn. Otherwise, ask about
        the project's extensions that still need approval, if any."""
        session = self.session
        if session is not None and session.has_open_question:
            self.show_notice("this session was closed while a question was open; here it is again")
            await self._run_turn_events(session.resume_turn(self._take_steering_messages))
        elif session is not None and session.trust is not None and session.trust.has_undecided_items:
            await self._run_turn_events(session.trust.ask_now())

    async def _run_turn_events(self, events: AsyncIterator[Event]) -> bool:
        """Show a turn as it runs. Returns whether it ended with an answer."""
        has_failed = False
        has_ended_early = False
        timer = TurnTimer(monotonic())
        with self.busy_with("thinking"):
            try:
                async for event in events:
                    has_failed = has_failed or isinstance(event, TurnFailed)
                    has_ended_early = has_failed or (isinstance(event, TurnFinished) and event.end != "answered")
                    self.show_event(event)
                    timer.elapsed_at(monotonic(), is_waiting=bool(self.view.open_questions))
                    if isinstance(event, Steered):
                        self.queue.confirm_delivered(event.text)
            except AgentError as error:
                self.show_failure(error)
                return False
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
                self.show_turn_total(timer.elapsed_at(monotonic(), is_waiting=False))
                self.queue.return_undelivered()
        if has_ended_early:  # the last known size is too small or too large now
            await self.measure_context(is_outdated=True)
        return not has_failed

    def show_turn_total(self, elapsed_seconds: float) -> None:
        """Show the total line of the finished turn. `elapsed_seconds`: how long the turn took."""
        self._show(with_total(self.view, elapsed_seconds))

    def _take_steering_messages(self) -> tuple[User, ...]:
        return tuple(User((Text(text), *self.pastes.attachments(text))) for text in self.queue.take_for_step())

    async def run_with_activity(self, activity: str, work: "Callable[[Session], Awaitable[ResultT]]") -> ResultT | None:
        """Show the activity while doing the work. Returns the result, or None if there is no session or the work fails.
        Errors are shown."""
        if self.session is None:
            return None
        with self.busy_with(activity):
            try:
                return await work(self.session)
            except AgentError as error:
                self.show_failure(error)
                return None

    def answer(self, question_id: str, answer: Decision | PlanDecision | str) -> None:
        if self.session is not None:
            self.session.answer(question_id, answer)

    async def change_mode(self, mode: PermissionMode) -> int:
        """Switch the permission mode, even during a turn; return the number of open questions that were approved."""
        answered_count = 0
        if self.session is not None:
            try:
                answered_count = await self.session.change_mode(mode)
            except AgentError as error:
                self.show_notice(str(error))  # a notice, because a running turn continues
            self._show(replace(self.view, mode=mode))
        return answered_count

    @property
    def title(self) -> str:
        """The session's title, or its folder's name if it has none; empty without a session."""
        return (self.session.title or self.session.working_folder.name) if self.session is not None else ""

    def interrupt(self) -> None:
        if self._opener.is_opening:
            self._opener.stop()
        elif self.session is not None:
            self.session.interrupt()

    def stop_turn_for_exit(self) -> None:
        """Stop the running turn because the program is exiting."""
        if self.session is not None:
            self.session.end_turn_for_exit()

    async def wait_until_idle(self) -> None:
        """Wait until the session is idle."""
        if self.is_busy:
            self._idle_event.clear()
            await self._idle_event.wait()

    async def close(self, reason: "EndReason | None" = "other") -> None:
        """Close the session, passing the reason to hooks. Does nothing if it is already closed."""
        session, self.session = self.session, None
        if session is not None:
            await session.close(reason)

    def show_event(self, event: Event) -> None:
        self._show(apply_event(self.view, with_relative_paths(event, self.folder)))

    @property
    def folder(self) -> str:
        """The working folder."""
        return str(self.sessions.root)

    def show_notice(self, text: str) -> None:
        self.show_event(Noticed(text))

    def show_failure(self, error: AgentError) -> None:
        """Show that the current work has failed. If an error does not end any work, use `show_notice`."""
        self.show_event(TurnFailed.from_error(error))

    async def _reopen(self, session_id: str | None, opening: "OpeningKind") -> None:
        try:
            self.session = await self.sessions.open(id_prefix=session_id, opening_kind=opening)
        except AgentError as error:
            self.show_failure(error)

    @contextmanager
    def busy_with(self, activity: str) -> Iterator[None]:
        """Mark the session as busy inside this context."""
        self.is_busy = True
        self._show(replace(self.view, is_busy=True, activity=activity))
        try:
            yield
        finally:
            self.is_busy = False
            self._idle_event.set()
            self._show(replace(self.view, is_busy=False, activity="", open_questions=()))

    def _show(self, view: SessionView) -> None:
        self.view = view
        self._on_change()
