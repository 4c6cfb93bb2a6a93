"""The main screen: the transcript, what waits, the prompt and the status line, and how one gets from one to another."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.timer import Timer

from tui.bindings import bindings
from tui.prompt.history import History
from tui.prompt.pastes import Pastes
from tui.session.completion import Offers
from tui.session.queue import Queue
from tui.view.blocks import DETAILS, told_of
from tui.widgets.completions import Completions
from tui.widgets.prompt import PromptInput
from tui.widgets.queue import QueueLines
from tui.widgets.reader import Reader
from tui.widgets.status import StatusLine
from tui.widgets.todos import TodoLine
from tui.widgets.transcript import Transcript

REST = 1.0
"""Seconds after which it is told what has been written."""


class MainScreen(Screen[None]):
    """Where one reads and writes. What is sent leaves it as `Prompt.Submitted`."""

    AUTO_FOCUS = "#prompt"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012  # as Textual declares it
    """Where a panel has room beside the conversation."""
    BINDINGS: ClassVar[list[BindingType]] = bindings("main")

    def __init__(
        self,
        history: History,
        offers: Offers,
        pastes: Pastes,
        queue: Callable[[], Queue],
        written: Callable[[str], object],
        *,
        vim: bool,
    ) -> None:
        """`offers`: what a text in the prompt may become. `pastes`: what is folded in it. `queue`: the messages that
        wait, asked for once there are some. `written` is told what is in the prompt, now and then while it changes.
        `vim`: whether the prompt begins with the keys of vi."""
        super().__init__()
        self._history = history
        self._offers, self._pastes = offers, pastes
        self._queue = queue
        self._written = written
        self._telling: Timer | None = None
        """Tells soon what is in the prompt."""
        self._vim = vim

    def compose(self) -> ComposeResult:
        offered = Completions(id="completions")
        with Vertical(id="desk"):
            yield Reader(id="reader")
            yield TodoLine(id="todos")
            yield QueueLines(id="queue")
            yield offered
            yield PromptInput(
                self._history, offered, self._offers, self._pastes, placeholder="Ask, or / for commands", id="prompt"
            )
            yield StatusLine(id="status")

    def on_mount(self) -> None:
        self.prompt.use_vim(self._vim)
        self.set_focus(self.prompt)  # at once: what is typed from now on is for the prompt

    async def on_unmount(self) -> None:
        await self._offers.close()

    @property
    def prompt(self) -> PromptInput:
        return self.query_one(PromptInput)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    @property
    def todos(self) -> TodoLine:
        return self.query_one(TodoLine)

    # What is written, and what waits

    @on(PromptInput.Changed)
    def _is_writing(self) -> None:
        if not self.prompt.text:
            self._tell_written()  # at once: it was sent, or is not wanted
        elif self._telling is None:
            self._telling = self.set_timer(REST, self._tell_written)

    def _tell_written(self) -> None:
        if self._telling is not None:
            self._telling.stop()
            self._telling = None
        self._written(self.prompt.text)

    @on(PromptInput.Recalled)
    def _walk_queue(self) -> None:
        self.query_one(QueueLines).focus()

    @on(QueueLines.Edited)
    def _edit_queued(self, message: QueueLines.Edited) -> None:
        if text := self._queue().take(message.item):  # otherwise it was heard in the meantime
            self.prompt.put_first(text)
        self.prompt.focus()

    @on(QueueLines.Removed)
    def _remove_queued(self, message: QueueLines.Removed) -> None:
        self._queue().take(message.item)

    @on(QueueLines.Left)
    def _left_queue(self, message: QueueLines.Left) -> None:
        self.prompt.focus()
        self.prompt.insert(self._pastes.fold(message.typed))

    # Reading

    @on(PromptInput.Scrolled)
    def _scrolled(self, message: PromptInput.Scrolled) -> None:
        match message.key:
            case "home":
                self.action_scroll_to_start()
            case "end":
                self.action_scroll_to_end()
            case _:
                self.action_page(-1 if message.key == "pageup" else 1)

    @on(Transcript.Left)
    async def _left_transcript(self, message: Transcript.Left) -> None:
        self.prompt.focus()
        if message.typed:
            self.prompt.insert(self._pastes.fold(message.typed))
        else:
            await self.run_action("app.escape")

    @on(Transcript.Copied)
    def _copied(self, message: Transcript.Copied) -> None:
        from tui.terminal.copy import source_of  # noqa: PLC0415  # deferred: not before the first paint

        self.app.copy_to_clipboard(source_of(message.block))

    def action_page(self, direction: int) -> None:
        self.transcript.page(direction)

    def action_jump(self, direction: int) -> None:
        self.transcript.jump(direction)

    async def action_find(self) -> None:
        await self.query_one(Reader).open_search()

    def action_scroll_to_start(self) -> None:
        self.transcript.go_home()

    def action_scroll_to_end(self) -> None:
        self.transcript.go_end()

    def action_cycle_detail(self) -> None:
        detail = DETAILS[(DETAILS.index(self.transcript.detail) + 1) % len(DETAILS)]
        self.transcript.show_in(detail)
        self.prompt.post_message(PromptInput.Hinted(told_of(detail)))

    def action_focus_transcript(self) -> None:
        self.transcript.focus()
