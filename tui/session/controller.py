"""Controls the session on display: its view, its queue, and switching between sessions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from ebbtide.agent.config.options import MODES, Mode
from ebbtide.agent.context.job_notes import JOB_ENDED_PROMPT
from ebbtide.agent.context.provenance import Trace
from ebbtide.agent.context.reminder_notes import MODES as MEANINGS
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.permissions import Decision
from ebbtide.agent.events.plan import PlanDecision
from ebbtide.agent.events.session import Event, Noticed, Steered, TurnFailed, TurnFinished
from ebbtide.agent.input.shell import run_by_user
from ebbtide.agent.messages import Conversation, Note, Text, User
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.session.drafts import Drafts, UnsentText
from ebbtide.tui.session.queue import Queue
from ebbtide.tui.session.session_opener import SessionOpener
from ebbtide.tui.session.session_view import PAGE, earlier_blocks, view_of_session
from ebbtide.tui.view.blocks import SessionView
from ebbtide.tui.view.provenance import never_seen
from ebbtide.tui.view.reduce import advance, with_relative_paths
from ebbtide.tui.view.resumed import view_of
from ebbtide.tui.view.turn_total import TurnTime, with_total

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.hooks.session_hooks import EndReason
    from ebbtide.agent.session import Session
    from ebbtide.agent.sessions import Opening, Sessions

ResultT = TypeVar("ResultT")


def next_mode(mode: str) -> Mode:
    """The next mode in the cycle. `auto` is not part of it and has to be named."""
    around: tuple[Mode, ...] = ("ask", "accept-edits", "plan")
    return around[(around.index(mode) + 1) % len(around)] if mode in around else "ask"


class SessionController:
    """One session at a time. Every event produces a new `view`, and `changed` is called."""

    def __init__(
        self,
        sessions: "Sessions",
        changed: Callable[[], None],
        drafts: Drafts | None = None,
        pastes: Pastes | None = None,
    ) -> None:
        self.sessions = sessions
        self.session: Session | None = None
        self.view = SessionView()
        self.queue = Queue()
        """Messages queued for the next step or the end of the turn."""
        self.pastes = pastes or Pastes()
        """Placeholders in messages."""
        self.unsent = UnsentText(drafts or Drafts(None), self.queue, self.pastes, self._draft_owner)
        self.occupied = False
        """Whether a turn runs, or a session is being opened, closed or compacted."""
        self._at_rest = asyncio.Event()
        self._opener = SessionOpener(sessions, self._show_preview, self._show_opening_progress)
        self._changed = changed
        self._reading = asyncio.Lock()
        """Held while older messages are read."""
        self.grown: Callable[[int], None] = lambda more: None
        """Called with the number of blocks that were prepended to the view."""
        self.glimpsed: Callable[[], None] = lambda: None
        """Called when the view shows the end of a session that is being opened."""

    async def begin(self, resume: str | None, model: str | None) -> None:
        """Open the first session. Raises `AgentError`."""
        with self.busy_with("opening the session"):
            opened = await self._opener.open_unless_stopped(resume, model, "first")
            if opened is not None:
                self._adopt(*opened)
            else:
                await self._begin_new_session(model)

    async def _begin_new_session(self, model: str | None) -> None:
        """Open a new session after opening the first was interrupted."""
        self._adopt(*await self._opener.open(None, model, "first"))
        self.glimpsed()
        self.notice("opening the session was interrupted: this is a new one, `/resume` goes on with an earlier one")

    async def open(self, resume: str | None = None, model: str | None = None) -> bool:
        """Open another session, or a new one. An error is shown and the old session stays, also after an interrupt."""
        with self.busy_with("opening the session"):
            before = self.session.id if self.session is not None else None
            is_same = before is not None and resume is not None and before.startswith(resume)
            self.unsent.save_in_progress("")  # it stays in the prompt, for the session that is open then
            # A session is open once: it cannot be opened again before it is closed.
            has_begun = self.session is not None and self.session.hooks is not None and self.session.hooks.has_begun
            opening: Opening = "first" if not has_begun else "again" if is_same else "instead"
            problem = await self._try_close(None) if is_same else ""
            shown = self.view
            try:
                opened = (
                    await self._opener.open(resume, model, opening, is_shown=True)  # there is none to stay with
                    if is_same
                    else await self._opener.open_unless_stopped(resume, model, opening)
                )
            except AgentError as error:
                self._show(replace(shown, busy=True, activity=self.view.activity))
                self.fail(error)
                if is_same:
                    await self._reopen(before, opening)
                return False
            if opened is None and self.session is None:
                await self._begin_new_session(model)
                return True
            if opened is None:
                self._show(replace(shown, busy=True, activity=self.view.activity))
                self.glimpsed()
                return False
            problem = await self._try_close("clear" if resume is None else "resume") or problem
            self._adopt(*opened)
            if problem:
                self.notice(problem)
            return True

    async def _try_close(self, reason: "EndReason | None") -> str:
        """Close the session; return what could not be saved, if anything."""
        try:
            await self.close(reason)
        except AgentError as error:
            return str(error)
        return ""

    def _show_preview(self, end: Conversation) -> None:
        """Show the end of a session that is being opened."""
        shown = view_of(self.sessions.visible(end), self.folder)
        self._show(replace(shown, busy=True, activity=self.view.activity))
        self.glimpsed()

    def _show_opening_progress(self, activity: str) -> None:
        self._show(replace(self.view, activity=activity))

    async def adopt(self, session: "Session") -> None:
        """Show a session with its history."""
        self._adopt(session, await view_of_session(self.sessions, session))

    def _adopt(self, session: "Session", shown: SessionView) -> None:
        """Switch to a session."""
        self.session = session
        session.listen(self.advance)
        self._show(replace(shown, model=session.model, mode=session.mode, cost=session.cost))
        for text in session.news:
            self.notice(text)

    async def read_earlier(self, *, all: bool = False) -> None:
        """Show more earlier messages, a page or `all`. An error is shown. A request for a page joins one in
        progress."""
        if self._reading.locked() and not all:
            return
        async with self._reading:
            session, position = self.session, self.view.earlier
            if session is None or not position:
                return
            limit = position if all else PAGE
            try:
                start, blocks = await earlier_blocks(self.sessions, session.id, position, limit)
            except AgentError as error:
                if self.session is session and self.view.earlier == position:
                    self._show(self.view.with_read_problem(str(error)))
                if all:  # the row that says it need not be on the screen
                    self.notice(str(error))
                return
            if self.session is not session or self.view.earlier != position:
                return
            shown = len(self.view.past)
            self.view = self.view.with_older(start, blocks)
            self.grown(len(self.view.past) - shown)

    async def measure(self, *, again: bool = False) -> None:
        """Measure a resumed session before its first request, without asking a provider. Does nothing if the size is
        known or cannot be measured. `again`: the shown size is outdated."""
        session = self.session
        if session is None or not session.history.messages:
            return
        try:
            found = await self.sessions.overview(session.id, session.history)
        except AgentError:  # the first request tells it
            return
        if self.session is session and (again or not self.view.used):
            parts = tuple((component.name, component.tokens) for component in found.components)
            known = replace(self.view, used=found.used_tokens, room=found.effective, parts=parts)
            self._show(replace(known, is_guess=session.history.anchor is None))

    def _draft_owner(self) -> str | None:
        """The session whose unsent text is saved; None while it is empty."""
        has_begun = self.session is not None and (self.occupied or self.session.history.messages)
        return self.session.id if self.session is not None and has_begun else None

    def take_draft(self) -> str:
        """Return and remove the saved unsent text of the session."""
        if self.session is None:
            return ""
        draft = self.unsent.take(self.session.id)
        if draft:
            self.notice("what you had not sent when this session was left is in the prompt again")
        return draft

    async def run_turn(self, text: str) -> bool:
        """Run a turn; return whether it ended with an answer."""
        if self.session is None:
            return False
        return await self._follow(
            self.session.send(text, self.pastes.attachments(text), pending_messages=self._steering_messages)
        )

    async def continue_after_jobs(self) -> None:
        """Run a turn in which the model continues after a background job."""
        if self.session is not None and self.session.background_jobs.ended and not self.session.is_at_question:
            await self._follow(
                self.session.send("", (Note(JOB_ENDED_PROMPT),), pending_messages=self._steering_messages)
            )

    async def resume_turn(self) -> None:
        """Ask the question at which the session was left again and continue its turn; or ask for approval of the
        project before the first message. Does nothing otherwise."""
        session = self.session
        if session is not None and session.is_at_question:
            self.notice("this session was left at a question; it is asked again")
            await self._follow(session.go_on(self._steering_messages))
        elif session is not None and session.trust is not None and session.trust.awaits:
            await self._follow(session.trust.ask_now())

    async def _follow(self, events: AsyncIterator[Event]) -> bool:
        """Show a turn; return whether it ended with an answer."""
        failed, is_cut, time = False, False, TurnTime(monotonic())
        with self.busy_with("thinking"):
            try:
                async for event in events:
                    failed = failed or isinstance(event, TurnFailed)
                    is_cut = failed or (isinstance(event, TurnFinished) and event.end != "answered")
                    self.advance(event)
                    time.at(monotonic(), is_asked=bool(self.view.asked))
                    if isinstance(event, Steered):
                        self.queue.confirm_delivered(event.text)
            except AgentError as error:
                self.fail(error)
                return False
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
                self.end_turn(time.at(monotonic(), is_asked=False))
                self.queue.return_undelivered()
        if is_cut:  # the last request was measured without what was added since
            await self.measure(again=True)
        return not failed

    def end_turn(self, took: float) -> None:
        """Show the time of the turn, in seconds."""
        self._show(with_total(self.view, took))

    def _steering_messages(self) -> tuple[User, ...]:
        return tuple(User((Text(text), *self.pastes.attachments(text))) for text in self.queue.take_for_step())

    async def run_command(self, command: str) -> None:
        """Run a user's command, whose output the model will see."""
        await self.run_with_activity(
            "running your command", lambda session: session.change(run_by_user, command, self.advance)
        )

    async def compact(self, focus: str) -> None:
        if self.session is None:
            return
        with self.busy_with("compacting"):
            try:
                result = await self.session.compact(focus or None, self.advance)
            except AgentError as error:
                self.fail(error)
                return
            if result.is_interrupted:
                self.advance(Noticed("the compaction was interrupted: nothing has changed"))
                return
            if not result.strategies:
                self.advance(Noticed("nothing was compacted: there is nothing yet that a summary would make smaller"))
                return
            self._show(replace(self.view, cost=self.session.cost))

    async def why(self, text: str) -> Trace:
        """Find out where a text is now. If it was never seen, that is shown."""
        if not text:
            self.notice("write a part of what was said or seen after `/why`")
            return Trace()
        trace = await self.run_with_activity("searching", lambda session: session.why(text))
        if trace is not None and not trace.places:
            self.notice(never_seen(text, trace.unsearched))
        return trace or Trace()

    async def bring(self, ref: str) -> None:
        """Bring a reference back into context."""
        if not ref:
            self.notice("write a reference after `/bring`, such as `r12`; `/why` names them")
            return
        event = await self.run_with_activity("bringing it back", lambda session: session.bring(ref))
        if event is not None:
            self.advance(event)

    async def run_with_activity(self, activity: str, work: "Callable[[Session], Awaitable[ResultT]]") -> ResultT | None:
        """Return the result of the work; None without a session, or after an error, which is shown."""
        if self.session is None:
            return None
        with self.busy_with(activity):
            try:
                return await work(self.session)
            except AgentError as error:
                self.fail(error)
                return None

    def answer(self, question: str, answer: Decision | PlanDecision | str) -> None:
        if self.session is not None:
            self.session.answer(question, answer)

    async def change_mode(self, name: str) -> str:
        """Switch the permission mode, by default to the next one, also during a turn. Returns the meaning of the
        mode; empty for an unknown mode, which is shown."""
        if self.session is None:
            return ""
        mode = next_mode(self.session.mode) if not name else next((mode for mode in MODES if mode == name), None)
        if mode is None:
            self.notice(f"there is no mode `{name}`; the modes are {', '.join(f'`{mode}`' for mode in MODES)}")
            return ""
        answered = 0
        try:
            answered = await self.session.change_mode(mode)
        except AgentError as error:
            self.notice(str(error))  # a turn may run, and goes on
        self._show(replace(self.view, mode=mode))
        return f"{mode}{', and what was asked is done' if answered else ''}: {MEANINGS[mode]}"

    @property
    def name(self) -> str:
        """The session's title: its first message, or else its folder; empty without a session."""
        return (self.session.title or self.session.root.name) if self.session is not None else ""

    def interrupt(self) -> None:
        if self._opener.is_at_work:
            self._opener.stop()
        elif self.session is not None:
            self.session.interrupt()

    def leave_turn(self) -> None:
        """Stop the running turn as at program exit."""
        if self.session is not None:
            self.session.leave_turn()

    async def wait_until_idle(self) -> None:
        """Wait until the session is idle."""
        if self.occupied:
            self._at_rest.clear()
            await self._at_rest.wait()

    async def close(self, reason: "EndReason | None" = "other") -> None:
        """Close the session, with the reason for hooks. Does nothing if already closed."""
        session, self.session = self.session, None
        if session is not None:
            await session.close(reason)

    def advance(self, event: Event) -> None:
        self._show(advance(self.view, with_relative_paths(event, self.folder)))

    @property
    def folder(self) -> str:
        """The working folder."""
        return str(self.sessions.root)

    def notice(self, text: str) -> None:
        self.advance(Noticed(text))

    def fail(self, error: AgentError) -> None:
        """End the current work with this error. Other errors are notices."""
        self.advance(TurnFailed.by(error))

    async def _reopen(self, id: str | None, opening: "Opening") -> None:
        try:
            self.session = await self.sessions.open(resume=id, opening=opening)
        except AgentError as error:
            self.fail(error)

    @contextmanager
    def busy_with(self, activity: str) -> Iterator[None]:
        """Show that the session is busy, with an activity."""
        self.occupied = True
        self._show(replace(self.view, busy=True, activity=activity))
        try:
            yield
        finally:
            self.occupied = False
            self._at_rest.set()
            self._show(replace(self.view, busy=False, activity="", asked=()))

    def _show(self, view: SessionView) -> None:
        self.view = view
        self._changed()
