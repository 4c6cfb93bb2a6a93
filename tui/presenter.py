"""Shows the session on the screen: its view, the queue and the status line."""

import asyncio
import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.app import App
from textual.timer import Timer

from ebbtide.agent.config.options import STATUS_PARTS, StatusPart
from ebbtide.agent.errors import AgentError
from ebbtide.agent.input.instructions import branch_or_commit
from ebbtide.tui import screens, view, widgets
from ebbtide.tui.drawing_schedule import DrawingSchedule
from ebbtide.tui.screens.main import CENTRED_WIDTH, MainScreen
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.greeter import GreetingCollector
from ebbtide.tui.text.locale import is_ascii_locale
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.blocks import Call, SessionView
from ebbtide.tui.view.greeting import build_greeting_lines, centred_greeting, indent_lines, lines_below_prompt
from ebbtide.tui.view.status import ElapsedTimer, ReplySpeed, StatusLineState
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.queue import QueueLines
from ebbtide.tui.widgets.status import StatusBar
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:  # loads when the user begins to type
    from ebbtide.tui.widgets.side_panel import SidePanel

ANIMATION_INTERVAL_S = 0.7
"""Seconds between frames of the activity mark. The rate is low so that little is written to the terminal."""

HINT_DURATION_S = 2.0
"""How long a hint is shown, in seconds."""


class Presenter:
    """Draws the controller's view into the widgets of the main screen."""

    def __init__(
        self, app: App[Any], controller: SessionController, view_callbacks: Sequence[Callable[[SessionView], None]]
    ) -> None:
        """`view_callbacks` are called with each view after it has been drawn."""
        self._app = app
        self._controller = controller
        self._view_callbacks = view_callbacks
        self.schedule = DrawingSchedule(app, self._draw_view)
        self._tick_timer: Timer | None = None
        self._frame = 0
        """Number of clock ticks since work began."""
        self.is_animated = False
        """Whether the activity mark is animated."""
        self._is_turn_prepared = False
        """Whether what a turn needs has been loaded for the session."""
        self._has_panel = False
        self._side_panel: SidePanel | None = None
        """The side panel, if it is shown."""
        self._elapsed_timer = ElapsedTimer()
        self._hint = ""
        self._hint_timer: Timer | None = None
        self._reply_speed = ReplySpeed()
        self._branch = ""
        self._sandbox = ""
        self.status_parts: tuple[StatusPart, ...] = STATUS_PARTS
        """The parts of the status line."""
        self.greeter = GreetingCollector(lambda: controller)
        controller.queue.add_change_callback(self.draw_queue)
        controller.on_preview_painted = self._restart_transcript
        controller.on_blocks_prepended = self._show_older_blocks

    @property
    def _main_screen(self) -> MainScreen:
        screen = self._app.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def _draw_view(self) -> None:
        view = self._controller.view
        self._main_screen.is_session_new = self._main_screen.is_session_new and not (
            view.past_blocks or view.turn_blocks
        )
        self._app.query_one(TranscriptView).show(view.past_blocks, view.turn_blocks)
        self._update_tick_timer(view.is_busy)
        self._draw_status()
        self._update_side_panel()
        for show_view in self._view_callbacks:
            show_view(view)

    def show_session(self) -> None:
        """Draw the session that has just been opened, with its greeting and draft."""
        if not self.schedule.is_running:  # the session may be opened just as the app exits
            return
        session = self._controller.session
        self._draw_greeting()
        self.read_branch()
        self._restart_transcript()
        self._draw_status()
        self._update_side_panel()
        if self._side_panel is not None:
            self._side_panel.set_counted_files(None, frozenset(), self._controller.view)
        draft = self._controller.take_draft()
        if draft:
            self._app.query_one(PromptInput).prepend(draft)
        if session is not None:
            self._is_turn_prepared = False
            if session.history.messages or self._controller.queue or self._app.query_one(PromptInput).text:
                self.prepare_turn()
            self._app.call_after_refresh(self._app.run_worker, self._controller.measure_context, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._collect_greeting, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._count_files, group="aside")
            self._app.call_after_refresh(self._app.run_worker, self._read_sandbox_state, group="aside")

    def prepare_turn(self) -> None:
        """Load what the session's next turn needs, if that has not been done. Called when the user begins to type: a
        new session may be left alone for a long time, and importing an SDK takes long."""
        session = self._controller.session
        if self._is_turn_prepared or session is None:
            return
        self._is_turn_prepared = True
        self._app.call_after_refresh(self._show_or_hide_panel)  # after the paint, so that the prompt need not wait
        self._app.call_after_refresh(self._app.run_worker, session.prepare, group="aside")
        self._app.call_after_refresh(self._app.run_worker, self._load_drawing_modules, group="aside")

    async def _load_drawing_modules(self) -> None:
        """Load the modules that draw blocks and questions."""
        await asyncio.to_thread(lambda: screens.question)

    def _restart_transcript(self) -> None:
        self._app.query_one(TranscriptView).replace_blocks(self._controller.view.blocks)

    def _show_older_blocks(self, block_count: int) -> None:
        view = self._controller.view
        self._app.query_one(TranscriptView).prepend_blocks(view.past_blocks, view.turn_blocks, block_count)
        self._app.query_one(TranscriptPane).search_again()

    def recolor(self) -> None:
        """Redraw the parts that a theme change does not update automatically."""
        self._draw_greeting()
        self.draw_queue()

    def _draw_greeting(self) -> None:
        palette, greeting = get_palette(self._app.theme_variables), self.greeter.build_greeting()
        if greeting is not None:
            screen, supports_unicode = self._main_screen, not is_ascii_locale(os.environ)
            screen.is_session_new = not (self._controller.view.blocks or self._controller.queue)

            def build_greeting_text(width: int, height: int) -> Text:
                indent = screen.indent
                build_lines = centred_greeting if indent else build_greeting_lines
                lines = build_lines(greeting, max(1, width - 2 * indent), height, supports_unicode=supports_unicode)
                return clipped_text(indent_lines(lines, indent), palette)

            self._app.query_one(TranscriptView).show_greeting(build_greeting_text)
            screen.below_prompt.update(clipped_text(lines_below_prompt(greeting, CENTRED_WIDTH), palette))

    async def _collect_greeting(self) -> None:
        if await self.greeter.collect():
            self._draw_greeting()

    def draw_queue(self) -> None:
        if self.schedule.is_running:
            self._app.query_one(QueueLines).show(self._controller.queue.items)
            self._app.query_one(PromptInput).has_queued_messages = bool(self._controller.queue)
            self._update_side_panel()

    @property
    def has_panel(self) -> bool:
        return self._has_panel

    @has_panel.setter
    def has_panel(self, is_visible: bool) -> None:
        """Show or hide the side panel, which is visible only on a wide screen."""
        self._has_panel = is_visible
        if self._is_turn_prepared:  # otherwise there is nothing to show in it yet
            self._show_or_hide_panel()

    def _show_or_hide_panel(self) -> None:
        is_visible = self._has_panel
        self._main_screen.set_class(is_visible, "beside")
        if is_visible and self._side_panel is None:
            self._side_panel = widgets.side_panel.SidePanel(id="side")
            self._main_screen.mount(self._side_panel)
            self._app.call_after_refresh(self._update_side_panel)
            self._app.call_after_refresh(self._app.run_worker, self._count_files, group="aside")
        elif not is_visible and self._side_panel is not None:
            self._side_panel.remove()
            self._side_panel = None
            self._update_side_panel()

    async def _count_files(self) -> None:
        """Count the files changed in the session again, because some changes may have been reverted."""
        session, turn_blocks = self._controller.session, self._controller.view.turn_blocks
        if session is None or self._side_panel is None:
            return
        finished_call_ids = frozenset(
            block.call_id for block in turn_blocks if isinstance(block, Call) and block.status == "done"
        )
        try:
            changes = await session.file_history.changes_by_tools()
        except AgentError:  # the panel then uses the counts of the calls
            return
        files = await asyncio.to_thread(view.side_panel.file_line_counts, changes)
        if self._side_panel is not None and self._side_panel.is_attached and self._controller.session is session:
            self._side_panel.set_counted_files(files, finished_call_ids, self._controller.view)

    def _update_side_panel(self) -> None:
        if not self.schedule.is_running:
            return
        is_visible = self._side_panel is not None and self._side_panel.is_attached and self._side_panel.display
        self._app.query_one(TranscriptView).set_todos_in_panel(is_visible)
        if self._side_panel is None:
            return
        controller = self._controller
        server_statuses = (
            controller.session.servers.statuses() if controller.session and controller.session.servers else ()
        )
        server_entries = tuple(
            view.side_panel.ServerEntry(status.name, status.phase, status.tool_count) for status in server_statuses
        )
        self._side_panel.show(controller.view, server_entries, len(controller.queue.items))

    def show_hint(self, hint: str) -> None:
        self._hint = hint
        self._draw_status()
        if self._hint_timer is not None:
            self._hint_timer.stop()
        # Set the timer on the status bar, so that it stops when the bar is removed. A timer on the app might fire
        # during shutdown and look for the bar.
        self._hint_timer = self._app.query_one(StatusBar).set_timer(HINT_DURATION_S, self._clear_hint)

    def _clear_hint(self) -> None:
        self._hint = ""
        self._draw_status()

    def read_branch(self) -> None:
        """Read the checked-out branch. Called on focus, and every second while the session is busy."""
        session = self._controller.session
        self._branch = branch_or_commit(session.working_folder) if session is not None else ""

    async def _read_sandbox_state(self) -> None:
        """Determine which sandbox is in use. The first call takes about 10 ms."""
        if (session := self._controller.session) is not None:
            self._sandbox = await asyncio.to_thread(lambda: session.boundary.sandbox_state)
            if self.schedule.is_running:
                self._draw_status()

    def _draw_status(self) -> None:
        now, view = monotonic(), self._controller.view
        tokens_per_second = self._reply_speed.tokens_per_second(view.streamed_chars, now) if view.is_busy else 0
        elapsed, sandbox = self._elapsed_timer.elapsed_at(view, now), self._sandbox
        frame = self._frame if self.is_animated and not view.open_questions else None
        visible_parts = () if self._main_screen.indent else self.status_parts  # the greeting already shows it
        if self._side_panel is not None and self._side_panel.display:
            visible_parts = tuple(part for part in visible_parts if part != "context")  # the side panel shows it
        state = StatusLineState(
            view, elapsed, self._hint, self._branch, tokens_per_second, visible_parts, sandbox, frame
        )
        self._app.query_one(StatusBar).show(state)

    def _tick(self) -> None:
        self._frame += 1
        if not self.is_animated or self._frame % 2 == 0:
            self.read_branch()
            self._update_side_panel()
        self._draw_status()

    def _update_tick_timer(self, is_busy: bool) -> None:
        """Start the clock when work begins; stop it when work ends."""
        if is_busy and self._tick_timer is None:
            wait = ANIMATION_INTERVAL_S if self.is_animated else 1.0
            self._tick_timer = self._app.query_one(StatusBar).set_interval(wait, self._tick)
        elif not is_busy and self._tick_timer is not None:
            self._tick_timer.stop()
            self._tick_timer, self._frame = None, 0
            self.read_branch()
            self._app.run_worker(self._count_files(), group="aside")
