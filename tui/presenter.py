"""Shows the session on the screen: its view, the queue and the status line."""

import asyncio
import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from rich.text import Text
from textual.app import App
from textual.timer import Timer

from ebbtide.agent.config.options import STATUS, StatusPart
from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.instructions import branch_of
from ebbtide.tui.screens.main import CENTRED_WIDTH, MainScreen
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.greeter import Greeter
from ebbtide.tui.text.locale import draws_letters_only
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.blocks import Call, SessionView
from ebbtide.tui.view.elapsed import ElapsedTimer, ReplyPace
from ebbtide.tui.view.greeting import below_greeting, greeting_in_the_middle, greeting_lines, indent_lines
from ebbtide.tui.view.side_panel import ServerFacts, works_of
from ebbtide.tui.view.status import StatusLineState
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.queue import QueueLines
from ebbtide.tui.widgets.side_panel import SidePanel
from ebbtide.tui.widgets.status import StatusBar
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

FLUSH_INTERVAL_S = 1 / 12
"""Seconds between two drawings of streamed text."""

ANIMATION_INTERVAL_S = 0.7
"""Seconds between two frames of the activity mark, kept slow to write little to the terminal."""

HINT_DURATION_S = 2.0
"""Seconds for which a hint is shown."""


def next_drawing(began: float, ended: float) -> float:
    """When to draw next, after a drawing from `began` to `ended`. At least half of the time is left for keys and
    idle work, such as a resize."""
    return max(began + FLUSH_INTERVAL_S, ended + (ended - began))


class Presenter:
    """Draws the controller's view into the widgets of the main screen."""

    def __init__(
        self, app: App[Any], controller: SessionController, drawn: Sequence[Callable[[SessionView], None]]
    ) -> None:
        """`drawn`: callbacks, called with every view after it is drawn."""
        self._app = app
        self._controller = controller
        self._drawn = drawn
        self._draw_at = 0.0
        """Earliest time of the next drawing of streamed text."""
        self._due: asyncio.TimerHandle | None = None
        """Timer of the next drawing."""
        self._tick_timer: Timer | None = None
        self._beat = 0
        """Number of ticks since work began."""
        self.is_animated = False
        """Whether the activity mark moves."""
        self._panel: SidePanel | None = None
        """The side panel, once there is something to show."""
        self._elapsed = ElapsedTimer()
        self._hint = ""
        self._hint_timer: Timer | None = None
        self._is_over = False
        self._pace = ReplyPace()
        self._branch = ""
        self._sandbox = ""
        self.wanted: tuple[StatusPart, ...] = STATUS
        """The parts of the status line."""
        self.greeter = Greeter(lambda: controller)
        controller.queue.watch(self.queue)
        controller.glimpsed = self._restart
        controller.grown = self._begin_earlier

    @property
    def _main(self) -> MainScreen:
        screen = self._app.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    @property
    def is_behind(self) -> bool:
        """Whether there are changes not drawn yet."""
        return self._due is not None

    def schedule_drawing(self) -> None:
        """Schedule a drawing. Streamed text is drawn a few times a second, at any speed."""
        if self._due is None and self._app.is_running and not self._is_over:
            wait = max(0.0, self._draw_at - monotonic())
            # Not a Textual timer: on a busy machine short ones are lost, and later drawings with them.
            self._due = asyncio.get_running_loop().call_later(wait, self._app.call_next, self.view)

    def end(self) -> None:
        """Stop drawing: the widgets are about to be removed."""
        self._is_over = True

    def view(self) -> None:
        if self._is_over or not self._app.is_running:  # without its widgets, which go while it ends
            return
        if self._due is not None:
            self._due.cancel()
            self._due = None
        began = monotonic()
        view = self._controller.view
        self._main.is_new = self._main.is_new and not (view.past or view.turn)
        self._app.query_one(TranscriptView).show(view.past, view.turn)
        self._keep_time(view.busy)
        self._status()
        self._update_side_panel()
        for drawn in self._drawn:
            drawn(view)
        self._draw_at = next_drawing(began, monotonic())

    def session(self) -> None:
        """Reset the transcript to the end of the new session."""
        if self._is_over or not self._app.is_running:  # a session may be open only when the app ends
            return
        session = self._controller.session
        self._greet()
        self.look_at_branch()
        self._restart()
        self._status()
        self._update_side_panel()
        if self._panel is not None:
            self._panel.count(None, frozenset(), self._controller.view)
        draft = self._controller.take_draft()
        if draft:
            self._app.query_one(PromptInput).prepend(draft)
        if session is not None:
            # After the paint: importing an SDK takes long, and the prompt should be visible meanwhile.
            self._app.call_after_refresh(self._app.run_worker, session.prepare, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._controller.measure, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._look, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._count_files, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._look_at_sandbox, group="aside")

    def _restart(self) -> None:
        self._app.query_one(TranscriptView).restart(self._controller.view.blocks)

    def _begin_earlier(self, more: int) -> None:
        view = self._controller.view
        self._app.query_one(TranscriptView).begin_earlier(view.past, view.turn, more)
        self._app.query_one(TranscriptPane).look_again()

    def recolor(self) -> None:
        """Redraw what does not follow a theme change by itself."""
        self._greet()
        self.queue()

    def _greet(self) -> None:
        palette, said = palette_of(self._app.theme_variables), self.greeter.greeting()
        if said is not None:
            screen, can_draw = self._main, not draws_letters_only(os.environ)
            screen.is_new = not self._controller.view.blocks

            def drawn(width: int, height: int) -> Text:
                indent = screen.indent
                drawn_by = greeting_in_the_middle if indent else greeting_lines
                lines = drawn_by(said, max(1, width - 2 * indent), height, can_draw=can_draw)
                return clipped_text(indent_lines(lines, indent), palette)

            self._app.query_one(TranscriptView).greet(drawn)
            screen.below.update(clipped_text(below_greeting(said, CENTRED_WIDTH), palette))

    async def _look(self) -> None:
        if await self.greeter.look():
            self._greet()

    def queue(self) -> None:
        if self._app.is_running and not self._is_over:
            self._app.query_one(QueueLines).show(self._controller.queue.items)
            self._app.query_one(PromptInput).queued = bool(self._controller.queue)
            self._update_side_panel()

    @property
    def has_panel(self) -> bool:
        return self._panel is not None

    @has_panel.setter
    def has_panel(self, wanted: bool) -> None:
        """Whether the side panel is wanted. It needs a wide screen."""
        self._main.set_class(wanted, "beside")
        if wanted and self._panel is None:
            self._panel = SidePanel(id="side")
            self._main.mount(self._panel)
            self._app.call_after_refresh(self._update_side_panel)
            self._app.call_after_refresh(self._app.run_worker, self._count_files, group="aside")
        elif not wanted and self._panel is not None:
            self._panel.remove()
            self._panel = None
            self._update_side_panel()

    async def _count_files(self) -> None:
        """Recount the changed files of the session: changes may have been reverted since."""
        session, turn = self._controller.session, self._controller.view.turn
        if session is None or self._panel is None:
            return
        ended = frozenset(block.call_id for block in turn if isinstance(block, Call) and block.status == "done")
        try:
            changes = await session.files.by_tools()
        except AgentError:  # then it shows what calls did
            return
        files = await asyncio.to_thread(works_of, changes)
        if self._panel is not None and self._panel.is_attached and self._controller.session is session:
            self._panel.count(files, ended, self._controller.view)

    def _update_side_panel(self) -> None:
        if not self._app.is_running or self._is_over:
            return
        is_seen = self._panel is not None and self._panel.is_attached and self._panel.display
        self._app.query_one(TranscriptView).set_todos_beside(is_seen)
        if self._panel is None:
            return
        controller = self._controller
        servers = controller.session.servers.servers() if controller.session and controller.session.servers else ()
        facts = tuple(ServerFacts(each.name, each.state.phase, len(each.state.tools)) for each in servers)
        self._panel.show(controller.view, facts, len(controller.queue.items))

    def show_hint(self, hint: str) -> None:
        self._hint = hint
        self._status()
        if self._hint_timer is not None:
            self._hint_timer.stop()
        # A timer of the line ends with it. A timer of the app would still look for the line during shutdown.
        self._hint_timer = self._app.query_one(StatusBar).set_timer(HINT_DURATION_S, self._clear_hint)

    def _clear_hint(self) -> None:
        self._hint = ""
        self._status()

    def look_at_branch(self) -> None:
        """Read the checked-out branch: on focus, and each second while working."""
        session = self._controller.session
        self._branch = branch_of(session.root) if session is not None else ""

    async def _look_at_sandbox(self) -> None:
        """Find the sandbox in use. The first call takes some 10 ms."""
        if (session := self._controller.session) is not None:
            self._sandbox = await asyncio.to_thread(lambda: session.boundary.state)
            if self._app.is_running and not self._is_over:
                self._status()

    def _status(self) -> None:
        now, view = monotonic(), self._controller.view
        pace = self._pace.at(view.streamed, now) if view.busy else 0
        took, boxed = self._elapsed.at(view, now), self._sandbox
        beat = self._beat if self.is_animated and not view.asked else None
        wanted = () if self._main.indent else self.wanted  # the greeting says it
        if self._panel is not None and self._panel.display:
            wanted = tuple(part for part in wanted if part != "context")  # it stands beside the conversation
        shown = StatusLineState(view, took, self._hint, self._branch, pace, wanted, boxed, beat)
        self._app.query_one(StatusBar).show(shown)

    def _tick(self) -> None:
        self._beat += 1
        if not self.is_animated or self._beat % 2 == 0:
            self.look_at_branch()
            self._update_side_panel()
        self._status()

    def _keep_time(self, busy: bool) -> None:
        """Run the clock while something is running, and stop it otherwise."""
        if busy and self._tick_timer is None:
            wait = ANIMATION_INTERVAL_S if self.is_animated else 1.0
            self._tick_timer = self._app.query_one(StatusBar).set_interval(wait, self._tick)
        elif not busy and self._tick_timer is not None:
            self._tick_timer.stop()
            self._tick_timer, self._beat = None, 0
            self.look_at_branch()
            self._app.run_worker(self._count_files(), group="aside")
