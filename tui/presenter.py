"""The session on the screen: its view, what waits to be said, the status line."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from textual.app import App
from textual.timer import Timer

from agent.config.options import STATUS, StatusPart
from tui.session.controller import SessionController
from tui.session.git_branch import branch_of
from tui.session.greeter import Greeter
from tui.text.styles import painted, palette_of
from tui.view.blocks import SessionView
from tui.view.elapsed import Elapsed, Pace
from tui.view.greeting import greeting_lines
from tui.view.status import Shown
from tui.widgets.prompt import PromptInput
from tui.widgets.queue import QueueLines
from tui.widgets.reader import Reader
from tui.widgets.status import StatusLine
from tui.widgets.transcript import Transcript

FLUSH = 1 / 12
"""Seconds from one drawing of what streams in to the next."""

MOMENT = 2.0
"""Seconds for which a hint is shown."""


def next_drawing(began: float, ended: float) -> float:
    """When to draw next, after a drawing that took from `began` to `ended`: half of the time at least is for keys, and
    for what is done only when nothing else waits, such as a new size of the window."""
    return max(began + FLUSH, ended + (ended - began))


class Presenter:
    """Draws what the controller says, into the widgets of the main screen."""

    def __init__(
        self, app: App[Any], controller: SessionController, drawn: Sequence[Callable[[SessionView], None]]
    ) -> None:
        """`drawn`: each is called with every view that has been drawn."""
        self._app = app
        self._controller = controller
        self._drawn = drawn
        self._draw_at = 0.0
        """When what streams in may be drawn next."""
        self._due: asyncio.TimerHandle | None = None
        """The drawing that is to come."""
        self._tick_timer: Timer | None = None
        self._elapsed = Elapsed()
        self._hint = ""
        self._hint_timer: Timer | None = None
        self._is_over = False
        self._pace = Pace()
        self._branch = ""
        self._sandbox = ""
        self.wanted: tuple[StatusPart, ...] = STATUS
        """The parts of the status line."""
        self.greeter = Greeter(lambda: controller)
        controller.queue.watch(self.queue)
        controller.glimpsed = self._restart
        controller.grown = self._begin_earlier

    @property
    def is_behind(self) -> bool:
        """Whether something has changed that is not drawn yet."""
        return self._due is not None

    def view_soon(self) -> None:
        """What streams in is drawn a few times a second, whatever its pace."""
        if self._due is None and self._app.is_running and not self._is_over:
            wait = max(0.0, self._draw_at - monotonic())
            # Textual's short timers are lost where the machine is too busy to begin them in time, and with them every
            # later drawing.
            self._due = asyncio.get_running_loop().call_later(wait, self._app.call_next, self.view)

    def end(self) -> None:
        """Nothing is drawn any more: the widgets are about to go."""
        self._is_over = True

    def view(self) -> None:
        if self._is_over or not self._app.is_running:  # without its widgets, which go while it ends
            return
        if self._due is not None:
            self._due.cancel()
            self._due = None
        began = monotonic()
        view = self._controller.view
        self._app.query_one(Transcript).show(view.past, view.turn)
        self._keep_time(view.busy)
        self._status()
        for drawn in self._drawn:
            drawn(view)
        self._draw_at = next_drawing(began, monotonic())

    def session(self) -> None:
        """Starts the transcript anew, at the end of what the session holds."""
        if self._is_over or not self._app.is_running:  # a session may be open only when the app ends
            return
        session = self._controller.session
        self._greet()
        self.look_at_branch()
        self._restart()
        self._status()
        draft = self._controller.take_draft()
        if draft:
            self._app.query_one(PromptInput).put_first(draft)
        if session is not None:
            # After the paint: an SDK takes long to load, and the user sees the prompt meanwhile.
            self._app.call_after_refresh(self._app.run_worker, session.prepare, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._controller.measure, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._look, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._look_at_sandbox, group="aside")

    def _restart(self) -> None:
        self._app.query_one(Transcript).restart(self._controller.view.blocks)

    def _begin_earlier(self, more: int) -> None:
        view = self._controller.view
        self._app.query_one(Transcript).begin_earlier(view.past, view.turn, more)
        self._app.query_one(Reader).look_again()

    def recolor(self) -> None:
        """Draws in the colours of another theme what does not do so by itself."""
        self._greet()
        self.queue()

    def _greet(self) -> None:
        palette, said = palette_of(self._app.theme_variables), self.greeter.greeting()
        if said is not None:
            self._app.query_one(Transcript).greet(
                lambda width, height: painted(greeting_lines(said, width, height), palette)
            )

    async def _look(self) -> None:
        if await self.greeter.look():
            self._greet()

    def queue(self) -> None:
        if self._app.is_running and not self._is_over:
            self._app.query_one(QueueLines).show(self._controller.queue.items)
            self._app.query_one(PromptInput).queued = bool(self._controller.queue)

    def for_a_moment(self, hint: str) -> None:
        self._hint = hint
        self._status()
        if self._hint_timer is not None:
            self._hint_timer.stop()
        # A timer of the line ends with it; one of the app would still look for the line while the app ends.
        self._hint_timer = self._app.query_one(StatusLine).set_timer(MOMENT, self._unhint)

    def _unhint(self) -> None:
        self._hint = ""
        self._status()

    def look_at_branch(self) -> None:
        """Reads which branch is checked out: where somebody comes back, and each second while something runs."""
        session = self._controller.session
        self._branch = branch_of(session.root) if session is not None else ""

    async def _look_at_sandbox(self) -> None:
        """Finds out what holds commands, which takes some 10 ms the first time."""
        if (session := self._controller.session) is not None:
            self._sandbox = await asyncio.to_thread(lambda: session.boundary.state)
            if self._app.is_running and not self._is_over:
                self._status()

    def _status(self) -> None:
        now, view = monotonic(), self._controller.view
        pace = self._pace.at(view.streamed, now) if view.busy else 0
        took, boxed = self._elapsed.at(view, now), self._sandbox
        shown = Shown(view, took, self._hint, self._branch, pace, self.wanted, boxed)
        self._app.query_one(StatusLine).show(shown)

    def _tick(self) -> None:
        self.look_at_branch()
        self._status()

    def _keep_time(self, busy: bool) -> None:
        """Counts seconds while there is something to wait for, and wakes nobody otherwise."""
        if busy and self._tick_timer is None:
            self._tick_timer = self._app.query_one(StatusLine).set_interval(1.0, self._tick)
        elif not busy and self._tick_timer is not None:
            self._tick_timer.stop()
            self._tick_timer = None
            self.look_at_branch()
