"""The main screen: transcript, queue, prompt and status line, and the focus between them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.tui.bindings import bindings
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.session.completion import SessionPromptCompleter
from ebbtide.tui.session.queue import Queue
from ebbtide.tui.view.blocks import DETAILS, detail_label
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.queue import QueueLines
from ebbtide.tui.widgets.status import StatusBar
from ebbtide.tui.widgets.todos import TodoLine
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:  # types only: nothing is asked before the first paint
    from ebbtide.tui.view.question import Answer, QuestionSpec
    from ebbtide.tui.widgets.question_panel import QuestionPanel

DRAFT_SAVE_DELAY_S = 1.0
"""Seconds after which the text of the prompt is saved."""
ROOMY_LINES, CRAMPED_LINES, TINY_LINES, MIN_QUESTION_LINES = 30, 18, 9, 6
"""Screen heights: below the first a question takes most of the transcript, below the second all of it and the
prompt, below the third it is hidden while writing, below the last there is no status line."""
CENTRED_WIDTH = 76
"""Width of the centred prompt on a large screen."""


class MainScreen(TypeaheadGuard[None]):
    """The screen for reading, writing and answering. A message is posted as `Prompt.Submitted`."""

    AUTO_FOCUS = "#prompt"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012  # as Textual declares it
    """Widths for the side panel."""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (ROOMY_LINES, "-tall")]  # noqa: RUF012  # as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("main"),
        Binding("tab", "to_question", show=False),
        Binding("shift+tab", "app.command('mode')", show=False),
    ]

    def __init__(
        self,
        history: History,
        offers: SessionPromptCompleter,
        pastes: Pastes,
        queue: Callable[[], Queue],
        written: Callable[[str], object],
        *,
        vim: bool,
    ) -> None:
        """`offers`: completions of the prompt. `pastes`: placeholders in it. `queue`: creates the queue widget on
        first use. `written`: called now and then with the text of the prompt. `vim`: start with vi keys."""
        super().__init__()
        self._history = history
        self._offers, self._pastes = offers, pastes
        self._queue = queue
        self._written = written
        self._telling: Timer | None = None
        """Timer for saving the text of the prompt."""
        self._vim = vim
        self.question: QuestionPanel | None = None
        """The open question above the prompt."""
        self._is_new = False

    def compose(self) -> ComposeResult:
        offered = Completions(id="completions")
        with Vertical(id="desk"):
            yield TranscriptPane(id="reader")
            yield TodoLine(id="todos")
            yield QueueLines(id="queue")
            yield offered
            yield PromptInput(
                self._history, offered, self._offers, self._pastes, placeholder="Ask, or / for commands", id="prompt"
            )
            yield Static(id="below")
            yield StatusBar(id="status")

    def on_mount(self) -> None:
        self.prompt.use_vim(self._vim)
        self.set_focus(self.prompt)  # at once: what is typed from now on is for the prompt

    async def on_unmount(self) -> None:
        await self._offers.close()

    @property
    def prompt(self) -> PromptInput:
        return self.query_one(PromptInput)

    @property
    def transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    @property
    def todos(self) -> TodoLine:
        return self.query_one(TodoLine)

    # Before the first message

    @property
    def is_new(self) -> bool:
        """Whether there are no messages yet: on a large screen the prompt is centred below the greeting."""
        return self._is_new

    @is_new.setter
    def is_new(self, is_new: bool) -> None:
        if is_new != self._is_new:
            self._is_new = is_new
            self.place_prompt()

    @property
    def indent(self) -> int:
        """Columns beside the centred prompt; 0 if it is not centred."""
        width, height = self.size
        is_placed = self._is_new and self.question is None and height >= ROOMY_LINES
        return max(0, (width - CENTRED_WIDTH) // 2) if is_placed else 0

    @property
    def below(self) -> Static:
        """The lines below the centred prompt."""
        return self.query_one("#below", Static)

    def place_prompt(self) -> None:
        """Move the prompt and its neighbours to the centre or to the bottom."""
        indent, below = self.indent, self.below
        for one in (self.prompt, below, *self.query("Completions, HistorySearchBar").results(Widget)):
            one.styles.offset = (indent, 0)  # margins at the sides would make what stands above it as narrow
            if indent:
                one.styles.width = CENTRED_WIDTH
            else:
                one.styles.clear_rule("width")
        self.prompt.set_class(bool(indent), "middle")
        below.display, below.styles.height = bool(indent), self.size.height * 2 // 5

    # Questions

    def ask(
        self, spec: "QuestionSpec", answered: "Callable[[Answer | None], None]", place: str = ""
    ) -> "QuestionPanel":
        """Show a question above the prompt. `answered` is called with the answer, or None for Esc."""
        from ebbtide.tui.widgets.question_panel import QuestionPanel  # noqa: PLC0415  # deferred: see above

        self.question = QuestionPanel(spec, answered, self._room, place)
        self.mount(self.question, before=self.query_one(Completions))
        self.await_painting()
        self.question.take_focus_soon()
        return self.question

    def remove_question(self) -> None:
        """Remove the question."""
        if (asked := self.question) is not None:
            self.question = None
            self.set_focus(self.prompt)  # first: what goes with the focus gives it to the transcript
            asked.remove()
            self._refit()

    def _room(self, is_whole: bool) -> int:
        """Lines available to a question; part of the transcript stays visible if possible."""
        height = self.size.height
        beside = (child for child in self.query_one("#desk").children if child is not self.question)
        others = sum(child.outer_size.height for child in beside if child.display and child.id != "reader")
        keep = 0 if is_whole or height < CRAMPED_LINES else 3 if height < ROOMY_LINES else height // 4
        return max(1, height - others - keep)

    def _refit(self) -> None:
        """On a low screen, hide other widgets in favour of the question."""
        if self._pruning:  # what is on it goes before it does
            return
        self.place_prompt()
        asking = self.question
        is_cramped = asking is not None and self.size.height < CRAMPED_LINES
        is_writing = self.focused is self.prompt
        self.set_class(is_cramped and not is_writing, "cramped")
        self.query_one(StatusBar).display = asking is None or self.size.height >= MIN_QUESTION_LINES
        if asking is not None:
            asking.display = not (is_cramped and is_writing and self.size.height < TINY_LINES)
            asking.fit()
            self.call_after_refresh(asking.fit)  # what stands beside it has its height by then

    def on_resize(self) -> None:
        self._refit()

    def on_descendant_focus(self) -> None:
        self._refit()

    def action_to_question(self) -> None:
        """Move the focus to the question, or else to the next widget."""
        if self.question is not None:
            self.question.take_focus()
            self.await_painting()
        elif self.focused is not self.prompt:
            self.focus_next()

    @property
    def is_asking(self) -> bool:
        return self.question is not None and self.question.has_focus_within

    @property
    def has_text_focus(self) -> bool:
        return self.question is not None and self.question.has_text_focus

    def accepts_key(self, key: events.Key) -> bool:
        return self.question is None or self.question.accepts_key(key)

    def insert_key(self, key: events.Key) -> bool:
        return self.question is not None and self.question.write(key)

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Put a rejected text into the prompt. A single character may be an early answer and is dropped."""
        if self.question is not None:
            is_text = key is None or self.question.is_beside or not self.question.accepts_key(key)
            self.question.is_beside = True
            if is_text or len(self.prompt.text) > 1:
                self.set_focus(self.prompt)  # at once: the next character is for it

    # Prompt and queue

    @on(PromptInput.Changed)
    def _is_writing(self) -> None:
        if not self.prompt.text and self.focused is self.prompt and self.question is not None:
            self.action_to_question()  # what was begun beside it is sent, or is not wanted
        if not self.prompt.text:
            self._save_draft()  # at once: it was sent, or is not wanted
        elif self._telling is None:
            self._telling = self.set_timer(DRAFT_SAVE_DELAY_S, self._save_draft)

    def _save_draft(self) -> None:
        if self._telling is not None:
            self._telling.stop()
            self._telling = None
        self._written(self.prompt.text)

    @on(PromptInput.RecallRequested)
    def _walk_queue(self) -> None:
        self.query_one(QueueLines).focus()

    @on(QueueLines.EditRequested)
    def _edit_queued(self, message: QueueLines.EditRequested) -> None:
        if text := self._queue().take(message.item):  # otherwise it was heard in the meantime
            self.prompt.prepend(text)
        self.prompt.focus()

    @on(QueueLines.RemoveRequested)
    def _remove_queued(self, message: QueueLines.RemoveRequested) -> None:
        self._queue().take(message.item)

    @on(QueueLines.QueueLeft)
    def _left_queue(self, message: QueueLines.QueueLeft) -> None:
        self.set_focus(self.prompt)  # as above
        self.prompt.insert(self._pastes.fold(message.typed))

    # Reading

    @on(PromptInput.ScrollRequested)
    def _scroll_transcript(self, message: PromptInput.ScrollRequested) -> None:
        match message.key:
            case "home":
                self.action_scroll_to_start()
            case "end":
                self.action_scroll_to_end()
            case _:
                self.action_page(-1 if message.key == "pageup" else 1)

    @on(TranscriptView.TranscriptLeft)
    async def _left_transcript(self, message: TranscriptView.TranscriptLeft) -> None:
        self.set_focus(self.prompt)  # at once: the next character is for it
        if message.typed:
            self.prompt.insert(self._pastes.fold(message.typed))
        elif self.question is not None:
            self.action_to_question()
        else:
            await self.run_action("app.escape")

    @on(TranscriptView.CopyRequested)
    def _copy_block(self, message: TranscriptView.CopyRequested) -> None:
        from ebbtide.tui.view.block_texts import source_of  # noqa: PLC0415  # deferred: not before the first paint

        self.app.copy_to_clipboard(source_of(message.block))

    def action_page(self, direction: int) -> None:
        self.transcript.page(direction)

    def action_jump(self, direction: int) -> None:
        self.transcript.jump(direction)

    async def action_find(self) -> None:
        await self.query_one(TranscriptPane).open_search()

    def action_scroll_to_start(self) -> None:
        self.transcript.go_home()

    def action_scroll_to_end(self) -> None:
        self.transcript.go_end()

    def action_cycle_detail(self) -> None:
        detail = DETAILS[(DETAILS.index(self.transcript.detail) + 1) % len(DETAILS)]
        self.transcript.show_in(detail)
        self.prompt.post_message(PromptInput.HintRequested(detail_label(detail)))

    def action_focus_transcript(self) -> None:
        self.transcript.walk()
