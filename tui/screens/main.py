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

from ebbtide.tui import view, widgets
from ebbtide.tui.bindings import bindings
from ebbtide.tui.prompt.history import History
from ebbtide.tui.prompt.pastes import Pastes
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.session.completion import SessionPromptCompleter
from ebbtide.tui.session.queue import MessageQueue
from ebbtide.tui.view.blocks import DETAIL_LEVELS, detail_label
from ebbtide.tui.widgets.completions import Completions
from ebbtide.tui.widgets.prompt import PromptInput
from ebbtide.tui.widgets.queue import QueueLines
from ebbtide.tui.widgets.status import StatusBar
from ebbtide.tui.widgets.todos import TodoLine
from ebbtide.tui.widgets.transcript import TranscriptView
from ebbtide.tui.widgets.transcript_pane import TranscriptPane

if TYPE_CHECKING:  # no question is asked before the first paint
    from ebbtide.tui.view.question import Answer, QuestionSpec
    from ebbtide.tui.widgets.question_panel import QuestionPanel

DRAFT_SAVE_DELAY_S = 1.0
"""Seconds after a change to the prompt until its text is saved."""
ROOMY_MIN_HEIGHT, CRAMPED_MAX_HEIGHT, TINY_MAX_HEIGHT, MIN_QUESTION_LINES = 30, 18, 9, 6
"""Screen heights below which a question gets more space. Below `ROOMY_LINES`, it may use most of the transcript's
lines. Below `CRAMPED_LINES`, it may also use the rest of them and the prompt's lines. Below `TINY_LINES`, it is hidden
while the user types in the prompt. Below `MIN_QUESTION_LINES`, the status line is hidden."""
CENTRED_WIDTH = 76
"""Width of the prompt when it is centred on a large screen."""


class MainScreen(TypeaheadGuard[None]):
    """The screen for reading, writing and answering. Messages from the user are posted as `PromptInput.Submitted`."""

    AUTO_FOCUS = "#prompt"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (140, "-wide")]  # noqa: RUF012  # as Textual declares it
    """Screen widths from which the side panel is hidden or shown."""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (ROOMY_MIN_HEIGHT, "-tall")]  # noqa: RUF012  # as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("main"),
        Binding("tab", "switch_to_question", show=False),
        Binding("shift+tab", "app.command('mode')", show=False),
    ]

    def __init__(
        self,
        history: History,
        completer: SessionPromptCompleter,
        pastes: Pastes,
        get_queue: Callable[[], MessageQueue],
        save_draft: Callable[[str], object],
        *,
        starts_in_vim_mode: bool,
        starts_with_new_session: bool,
    ) -> None:
        """`completer`: completes text in the prompt. `pastes`: the placeholders in the prompt. `get_queue` returns the
        message queue. `save_draft` is called with the prompt's text a while after it changes. `starts_in_vim_mode`:
        whether to start with vi keys. `starts_with_new_session`: whether the first session will be empty, so that the
        first paint has the prompt where it stays."""
        super().__init__()
        self._history = history
        self._completer, self._pastes = completer, pastes
        self._get_queue = get_queue
        self._store_draft = save_draft
        self._draft_timer: Timer | None = None
        """Timer that saves the text of the prompt."""
        self._starts_in_vim_mode = starts_in_vim_mode
        self.question: QuestionPanel | None = None
        """The open question above the prompt."""
        self._is_session_new = starts_with_new_session

    def compose(self) -> ComposeResult:
        completions = Completions(id="completions")
        with Vertical(id="desk"):
            yield TranscriptPane(id="reader")
            yield TodoLine(id="todos")
            yield QueueLines(id="queue")
            yield completions
            yield PromptInput(
                self._history,
                completions,
                self._completer,
                self._pastes,
                placeholder="Ask, or / for commands",
                id="prompt",
            )
            yield Static(id="below")
            yield StatusBar(id="status")

    def on_mount(self) -> None:
        self.prompt.set_vim_enabled(self._starts_in_vim_mode)
        self.move_prompt()
        self.set_focus(self.prompt)  # at once, so that the next key reaches the prompt

    async def on_unmount(self) -> None:
        await self._completer.close()

    @property
    def prompt(self) -> PromptInput:
        return self.query_one(PromptInput)

    @property
    def transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    @property
    def todos(self) -> TodoLine:
        return self.query_one(TodoLine)

    # Layout before the first message

    @property
    def is_session_new(self) -> bool:
        """Whether there are no messages yet. If so, the prompt is centred below the greeting on a large screen."""
        return self._is_session_new

    @is_session_new.setter
    def is_session_new(self, is_new: bool) -> None:
        if is_new != self._is_session_new:
            self._is_session_new = is_new
            self.move_prompt()

    @property
    def indent(self) -> int:
        """Number of columns to the left of the centred prompt; 0 if it is not centred."""
        width, height = self.app.size  # the screen itself has no size before the first layout
        is_centred = self._is_session_new and self.question is None and height >= ROOMY_MIN_HEIGHT
        return max(0, (width - CENTRED_WIDTH) // 2) if is_centred else 0

    @property
    def below_prompt(self) -> Static:
        """The lines below the centred prompt."""
        return self.query_one("#below", Static)

    def move_prompt(self) -> None:
        """Move the prompt and the widgets around it to the centre or the bottom."""
        indent, below = self.indent, self.below_prompt
        for widget in (self.prompt, below, *self.query("Completions, HistorySearchBar").results(Widget)):
            widget.styles.offset = (indent, 0)  # an offset, because side margins would also narrow the widgets above
            if indent:
                widget.styles.width = CENTRED_WIDTH
            else:
                widget.styles.clear_rule("width")
        self.prompt.set_class(bool(indent), "middle")
        below.display, below.styles.height = bool(indent), self.app.size.height * 2 // 5

    # Questions

    def show_question(
        self, spec: "QuestionSpec", on_answer: "Callable[[Answer | None], None]", position_text: str = ""
    ) -> "QuestionPanel":
        """Show a question above the prompt. `on_answer` is called with the answer, or with None on Esc."""
        self.question = widgets.question_panel.QuestionPanel(spec, on_answer, self._lines_for_question, position_text)
        self.mount(self.question, before=self.query_one(Completions))
        self.restart_guard()
        self.question.take_focus_soon()
        return self.question

    def remove_question(self) -> None:
        """Remove the question, if any."""
        if (question := self.question) is not None:
            self.question = None
            self.set_focus(self.prompt)  # removing the question first would move the focus to the transcript
            question.remove()
            self._fit_question()

    def _lines_for_question(self, is_full: bool) -> int:
        """Calculate how many lines a question may use. Part of the transcript stays visible, unless the screen is short
        or `is_full` is set because the question's subject is shown in full."""
        height = self.size.height
        siblings = (child for child in self.query_one("#desk").children if child is not self.question)
        sibling_lines = sum(child.outer_size.height for child in siblings if child.display and child.id != "reader")
        transcript_lines = (
            0 if is_full or height < CRAMPED_MAX_HEIGHT else 3 if height < ROOMY_MIN_HEIGHT else height // 4
        )
        return max(1, height - sibling_lines - transcript_lines)

    def _fit_question(self) -> None:
        """Fit the question into the screen. On a short screen, other widgets are hidden."""
        if self._pruning:  # the screen's widgets are already being removed
            return
        self.move_prompt()
        question = self.question
        is_cramped = question is not None and self.size.height < CRAMPED_MAX_HEIGHT
        is_writing = self.focused is self.prompt
        self.set_class(is_cramped and not is_writing, "cramped")
        self.query_one(StatusBar).display = question is None or self.size.height >= MIN_QUESTION_LINES
        if question is not None:
            question.display = not (is_cramped and is_writing and self.size.height < TINY_MAX_HEIGHT)
            question.fit_to_screen()
            self.call_after_refresh(question.fit_to_screen)  # again when the other widgets have their new height

    def on_resize(self) -> None:
        self._fit_question()

    def on_descendant_focus(self) -> None:
        self._fit_question()

    def action_switch_to_question(self) -> None:
        """Switch between the question and the prompt. If there is no question, focus the next widget unless the prompt
        has the focus."""
        if self.is_asking:
            self.set_focus(self.prompt)  # at once, so that the next key reaches it
        elif self.question is not None:
            self.question.take_focus()
            self.restart_guard()
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
        return self.question is not None and self.question.insert_key(key)

    def handle_rejected_key(self, key: events.Key | None) -> None:
        """Move the focus to the prompt if the rejected input is text for the prompt. A single character is dropped,
        because it may be an answer typed too early."""
        if self.question is not None:
            is_text = key is None or self.question.is_text_in_prompt or not self.question.accepts_key(key)
            self.question.is_text_in_prompt = True
            if is_text or len(self.prompt.text) > 1:
                self.set_focus(self.prompt)  # at once, so that the next key reaches it

    # Prompt and queue

    @on(PromptInput.Changed)
    def _handle_prompt_change(self) -> None:
        if not self.prompt.text and self.focused is self.prompt and self.question is not None:
            self.action_switch_to_question()  # the text in the prompt was sent or deleted
        if not self.prompt.text:
            self._save_draft()  # at once, because the text was sent or deleted
        elif self._draft_timer is None:
            self._draft_timer = self.set_timer(DRAFT_SAVE_DELAY_S, self._save_draft)

    def _save_draft(self) -> None:
        if self._draft_timer is not None:
            self._draft_timer.stop()
            self._draft_timer = None
        self._store_draft(self.prompt.text)

    @on(PromptInput.QueueRequested)
    def _focus_queue(self) -> None:
        self.query_one(QueueLines).focus()

    @on(QueueLines.EditRequested)
    def _edit_queued_message(self, message: QueueLines.EditRequested) -> None:
        if text := self._get_queue().take(message.item):  # empty if the message was delivered meanwhile
            self.prompt.prepend(text)
        self.prompt.focus()

    @on(QueueLines.RemoveRequested)
    def _remove_queued_message(self, message: QueueLines.RemoveRequested) -> None:
        self._get_queue().take(message.item)

    @on(QueueLines.QueueLeft)
    def _leave_queue(self, message: QueueLines.QueueLeft) -> None:
        self.set_focus(self.prompt)  # at once, so that the next key reaches it
        self.prompt.insert(self._pastes.collapse(message.typed_text))

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
    async def _leave_transcript(self, message: TranscriptView.TranscriptLeft) -> None:
        self.set_focus(self.prompt)  # at once, so that the next key reaches it
        if message.typed_text:
            self.prompt.insert(self._pastes.collapse(message.typed_text))
        elif self.question is not None:
            self.action_switch_to_question()
        else:
            await self.run_action("app.escape")

    @on(TranscriptView.CopyRequested)
    def _copy_block(self, message: TranscriptView.CopyRequested) -> None:
        self.app.copy_to_clipboard(view.block_texts.clipboard_text(message.block))

    def action_page(self, direction: int) -> None:
        self.transcript.scroll_page(direction)

    def action_jump(self, direction: int) -> None:
        self.transcript.jump_to_message(direction)

    async def action_find(self) -> None:
        await self.query_one(TranscriptPane).open_search()

    def action_scroll_to_start(self) -> None:
        self.transcript.go_to_start()

    def action_scroll_to_end(self) -> None:
        self.transcript.go_to_end()

    def action_cycle_detail(self) -> None:
        detail = DETAIL_LEVELS[(DETAIL_LEVELS.index(self.transcript.detail) + 1) % len(DETAIL_LEVELS)]
        self.transcript.set_detail(detail)
        self.prompt.post_message(PromptInput.HintRequested(detail_label(detail)))

    def action_focus_transcript(self) -> None:
        self.transcript.browse()
