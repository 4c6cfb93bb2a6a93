"""The terminal: widgets around one session. The app knows who is asked for what, and does none of it itself."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic, time
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Static
from textual.worker import Worker, WorkerError

from agent.errors import AgentError
from tui.asking import Asking
from tui.commands import Invocation, Unknown, completions, parse
from tui.history import History
from tui.keys import KEYS
from tui.palette import CALM, palette_of
from tui.ports import Session, Sessions
from tui.sanitise import visible_line
from tui.screens.archive import archive_screen
from tui.screens.context import ContextScreen
from tui.screens.guarded import GUARD, GuardedScreen
from tui.screens.help import HelpScreen
from tui.screens.models import model_picker
from tui.screens.places import PlacesScreen
from tui.screens.sessions import session_picker
from tui.talk import Talk
from tui.widgets.completions import Candidate, Completions
from tui.widgets.prompt import Prompt
from tui.widgets.reader import Reader
from tui.widgets.status import Shown, StatusLine
from tui.widgets.transcript import Transcript

FLUSH = 1 / 12
"""Seconds between two drawings of what streams in."""

TWICE = 2.0
"""Seconds within which a second Ctrl-C means it."""

_PATIENCE = 5.0
"""Seconds that leaving waits for an interrupted turn to end."""


class EbbApp(App[str]):
    """The terminal for sessions that `sessions` opens. Returns the id of the session to go on with, if
    anything was said in it.

    With `session` it shows that one; without, it opens one after its first paint: the one that `resume` names, the one
    that the user picks from a list (`choose`), or a new one, with `model` if given. `first_message` is sent as soon as
    the session is open. What the user types is kept in `history_file`. The app closes every session it shows; whoever
    made `sessions` closes that. `guard` is how long, in seconds, a question ignores keys.
    """

    CSS_PATH = "app.tcss"
    TITLE = "Ebbtide"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key.keys, key.action, key.help, show=False, priority=key.wins) for key in KEYS if key.keys
    ]

    def __init__(
        self,
        sessions: Sessions,
        *,
        history_file: Path | None = None,
        session: Session | None = None,
        resume: str | None = None,
        choose: bool = False,
        model: str | None = None,
        first_message: str | None = None,
        guard: float = GUARD,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.register_theme(CALM)
        self.theme = CALM.name
        self.talk = Talk(sessions, self._talk_changed)
        self._asking = Asking(self, self.talk.answer, guard)
        self._given, self._resume, self._choose, self._model = session, resume, choose, model
        self._history = History(history_file)
        self._flushed_at = 0.0
        self._flush_timer: Timer | None = None
        self._tick_timer: Timer | None = None
        self._busy_since = 0.0
        self._hint = ""
        self._working = False
        """A job runs: what is said now waits in the queue."""
        self._quit_asked_at: float | None = None
        self._job: Worker[None] | None = None
        if first_message:
            self.talk.queue.append(first_message)

    def compose(self) -> ComposeResult:
        offered = Completions(id="completions")
        with Vertical(id="desk"):
            yield Reader(id="reader")
            yield Static(id="queue", markup=False)
            yield offered
            yield Prompt(self._history, offered, _candidates, placeholder="Ask, or / for commands", id="prompt")
            yield StatusLine(id="status")

    def on_mount(self) -> None:
        self.query_one(Prompt).focus()
        self._show_view()
        self._start(self._open_first)

    async def on_event(self, event: events.Event) -> None:
        """Everything that happens passes here first: keys that a question ignores go no further."""
        if not (isinstance(event, events.Key) and self._is_typed_ahead(event)):
            await super().on_event(event)

    def _is_typed_ahead(self, key: events.Key) -> bool:
        if key.is_forwarded or key.key == "ctrl+c" or not isinstance(self.screen, GuardedScreen):
            return False
        return self.screen.ignores_key(key.time)

    async def on_unmount(self) -> None:
        await self.talk.close()

    @property
    def is_working(self) -> bool:
        """Something runs, or what it led to is not drawn yet."""
        return self._working or self._flush_timer is not None

    # Jobs: one at a time, and after each what waits in the queue

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self._working = True
        self._job = self.run_worker(self._run(work), group="job")

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            while self.talk.queue and await self._say_next():
                pass
        except AgentError as error:
            self.talk.fail(error)
        finally:
            self._working = False
        self._take_back_queue()

    async def _say_next(self) -> bool:
        if self.talk.session is None and not await self.talk.open(self._resume, self._model):
            return False
        text = self.talk.queue.pop(0)
        self._show_queue()
        return await self.talk.say(text)

    async def _open_first(self) -> None:
        if self._given is not None:
            self.talk.adopt(self._given)
        else:
            if self._choose:
                self._resume = await self._pick_session("") or None
            await self.talk.open(self._resume, self._model)
        self._show_session()

    async def _nothing(self) -> None:
        """The job of only sending what is queued."""

    # What the user does

    @on(Prompt.Submitted)
    def _submitted(self, message: Prompt.Submitted) -> None:
        match parse(message.text):
            case Unknown() as unknown:
                self.talk.notice(unknown.message)
            case Invocation(command=command, argument=argument) if command.when_busy:
                self.run_worker(command.run(self, argument), group="aside")
            case Invocation(command=command) if self._working:
                self.talk.notice(f"`/{command.name}` has to wait until the session is free. Esc interrupts it.")
            case Invocation(command=command, argument=argument):
                self._start(lambda: command.run(self, argument))
            case None:
                self.talk.queue.append(message.text)
                self._show_queue()
                self.query_one(Transcript).go_end()
                if not self._working:
                    self._start(self._nothing)

    @on(Prompt.Recalled)
    def _take_back_queue(self) -> None:
        """Puts what is queued back into the prompt, before what is being written there."""
        queue = self.talk.queue
        if queue:
            prompt = self.query_one(Prompt)
            prompt.put("\n\n".join([*queue, prompt.text]).rstrip())
            queue.clear()
            self._show_queue()

    @on(Prompt.Scrolled)
    def _scrolled(self, message: Prompt.Scrolled) -> None:
        match message.key:
            case "home":
                self.action_scroll_to_start()
            case "end":
                self.action_scroll_to_end()
            case _:
                self.action_page(-1 if message.key == "pageup" else 1)

    @on(Transcript.Left)
    def _left_transcript(self, message: Transcript.Left) -> None:
        prompt = self.query_one(Prompt)
        prompt.focus()
        if message.typed:
            prompt.insert(message.typed)
        else:
            self.action_escape()

    def action_escape(self) -> None:
        if self._working:
            self._take_back_queue()
            self.talk.interrupt()

    def action_page(self, direction: int) -> None:
        self.query_one(Transcript).page(direction)

    def action_jump(self, direction: int) -> None:
        self.query_one(Transcript).jump(direction)

    def action_find(self) -> None:
        for reader in self.screen.query(Reader):  # none where a question or a list covers it
            reader.open_search()

    def action_scroll_to_start(self) -> None:
        self.query_one(Transcript).go_home()

    def action_scroll_to_end(self) -> None:
        self.query_one(Transcript).go_end()

    def action_toggle_last(self) -> None:
        self.query_one(Transcript).toggle_last()

    def action_focus_transcript(self) -> None:
        self.query_one(Transcript).focus()

    async def action_help(self) -> None:
        await self.show_help()

    async def action_copy_or_quit(self) -> None:
        selected = self.screen.get_selected_text() or self.query_one(Prompt).selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            return self._say_for_a_moment("copied")
        now = monotonic()
        if self._quit_asked_at is not None and now - self._quit_asked_at < TWICE:
            self.run_worker(self.leave(), group="aside")
            return None
        self._quit_asked_at = now
        return self._say_for_a_moment("Ctrl-C again quits")

    # What commands ask for

    async def show_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    async def compact(self, focus: str) -> None:
        await self.talk.compact(focus)

    async def why(self, text: str) -> None:
        trace = await self.talk.why(text)
        if trace.places and self.talk.session is not None:
            ref = await self.push_screen_wait(PlacesScreen(self.talk.session.shelf, text, trace))
            if ref:
                await self.talk.bring(ref)

    async def bring(self, ref: str) -> None:
        await self.talk.bring(ref)

    async def show_archive(self) -> None:
        if self.talk.session is not None:
            ref = await self.push_screen_wait(await archive_screen(self.talk.session, time()))
            if ref:
                self.query_one(Prompt).insert(f"{ref} ")

    async def show_context(self) -> None:
        if self.talk.session is not None:
            self.push_screen(ContextScreen(await self.talk.sessions.overview(self.talk.session.id)))

    async def resume(self, id: str) -> None:
        current = self.talk.session.id if self.talk.session is not None else ""
        if not id:
            id = await self._pick_session(current)
        if id and id != current and await self.talk.open(resume=id):
            self._show_session()

    async def _pick_session(self, current: str) -> str:
        recent = await self.talk.sessions.recent()
        return await self.push_screen_wait(session_picker(recent, current, time()))

    async def choose_model(self, name: str) -> None:
        session = self.talk.session
        current = session.model if session is not None else ""
        name = name or await self.push_screen_wait(model_picker(self.talk.sessions.models(), current))
        if not name or name == current:
            return
        said = session is not None and session.history.messages
        if await self.talk.open(resume=session.id if session is not None and said else None, model=name):
            self._show_session()
            self.talk.notice(f"the model is now {name}")

    async def clear(self) -> None:
        if await self.talk.open(model=self.talk.session.model if self.talk.session is not None else self._model):
            self._show_session()

    async def leave(self) -> None:
        """Ends the turn, closes the session and leaves."""
        self.talk.queue.clear()
        if self._working and self._job is not None:
            self.talk.interrupt()
            try:
                await asyncio.wait_for(self._job.wait(), _PATIENCE)
            except (TimeoutError, WorkerError):
                self._job.cancel()
        session = self.talk.session
        id = session.id if session is not None and session.history.messages else None
        await self.talk.close()
        self.exit(id)

    # What is shown

    def _talk_changed(self) -> None:
        """Draws soon: what streams in is drawn a few times a second, whatever its pace."""
        if self._flush_timer is None and self.is_running:
            wait = max(0.0, self._flushed_at + FLUSH - monotonic())
            self._flush_timer = self.set_timer(wait or 0.001, self._show_view)

    def _show_view(self) -> None:
        self._flush_timer = None
        self._flushed_at = monotonic()
        view = self.talk.view
        self.query_one(Transcript).show(view.past, view.turn)
        self._keep_time(view.busy)
        self._show_status()
        self._asking.show(view.asked)

    def _show_session(self) -> None:
        """Starts the transcript anew, at the end of what the session holds."""
        transcript = self.query_one(Transcript)
        session, palette = self.talk.session, palette_of(self.theme_variables)
        if session is not None:
            transcript.greeting = Text.assemble(
                ("Ebbtide\n", palette.accent),
                (f"{visible_line(str(session.root))}\n", palette.text),
                ("/help shows keys and commands", palette.dim),
            )
        transcript.restart(self.talk.view.blocks)
        self._show_status()
        if session is not None:
            # After the paint: an SDK takes long to load, and the user sees the prompt meanwhile.
            self.call_after_refresh(self.run_worker, session.prepare(), group="aside")

    def _show_queue(self) -> None:
        palette = palette_of(self.theme_variables)
        shown = Text(no_wrap=True, overflow="ellipsis", end="")
        for index, text in enumerate(self.talk.queue):
            shown.append("\n" if index else "").append("queued  ", palette.dim).append(visible_line(text), palette.text)
        widget = self.query_one("#queue", Static)
        widget.update(shown)
        widget.display = bool(self.talk.queue)
        self.query_one(Prompt).queued = bool(self.talk.queue)

    def _show_status(self) -> None:
        elapsed = int(monotonic() - self._busy_since) if self.talk.view.busy else 0
        self.query_one(StatusLine).show(Shown(self.talk.view, elapsed, self._hint))

    def _keep_time(self, busy: bool) -> None:
        """Counts seconds while there is something to wait for, and wakes nobody otherwise."""
        if busy and self._tick_timer is None:
            self._busy_since = monotonic()
            self._tick_timer = self.set_interval(1.0, self._show_status)
        elif not busy and self._tick_timer is not None:
            self._tick_timer.stop()
            self._tick_timer = None

    def _say_for_a_moment(self, hint: str) -> None:
        self._hint = hint
        self._show_status()
        self.set_timer(TWICE, self._unhint)

    def _unhint(self) -> None:
        self._hint = ""
        self._show_status()


def _candidates(text: str) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(f"/{command.name} " if command.hint else f"/{command.name}", command.usage, command.help, True)
        for command in completions(text)
    )
