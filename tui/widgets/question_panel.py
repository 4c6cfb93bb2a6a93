"""The question panel, with the subject, choices and key hints."""

from collections.abc import Callable
from dataclasses import replace

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, Static

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.editor_screen import edit_in_editor
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.styles import get_palette, wrapped_text
from ebbtide.tui.view.question import (
    Answer,
    AnswerState,
    Choice,
    KeyEffect,
    QuestionSpec,
    TextEntry,
    choose,
    current_choices,
    initial_state,
    is_list_key,
    panel_key_effect,
)
from ebbtide.tui.view.question_lines import (
    PanelPart,
    choice_rows,
    headline_and_reason,
    lay_out_panel,
    panel_inner_width,
    question_key_hints,
)
from ebbtide.tui.widgets.choices import ChoiceList
from ebbtide.tui.widgets.field import CommandField, Field
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.question_subject import create_subject_widget, scroll_subject, show_change

_WIDGET_PARTS: tuple[tuple[str, PanelPart], ...] = (
    ("#headline", "headline"),
    ("#subject", "subject"),
    ("#command", "subject"),
    ("#reason", "reason"),
    ("ChoiceList", "list"),
    ("#free-text", "field"),
    ("#answers", "keys"),
)
"""The part that each widget belongs to. An edited command replaces the subject."""


class QuestionPanel(Vertical, can_focus=True):
    """A question above the prompt or over a screen. Calls `on_answer` once: with the answer, or with None on Esc. The
    owner limits its height."""

    DEFAULT_CSS = """
    QuestionPanel { height: auto; padding: 0 1; border-top: solid $warning; background: $surface; }
    QuestionPanel.bare { border: none; padding: 0; }
    QuestionPanel > #headline, QuestionPanel > #reason { height: auto; }
    QuestionPanel > #command { border: none; padding: 0; background: $panel; }
    QuestionPanel > #free-text { height: 1; border: none; padding: 0 0 0 2; background: $panel; }
    QuestionPanel > #subject, QuestionPanel > ChoiceList { background: $surface; scrollbar-size-vertical: 1; }
    QuestionPanel > #subject.code { background: $panel; }
    QuestionPanel > #subject > Static { width: 100%; height: auto; }
    """

    def __init__(
        self,
        spec: QuestionSpec,
        on_answer: Callable[[Answer | None], None],
        count_available_lines: Callable[[bool], int],
        position_text: str = "",
    ) -> None:
        """`count_available_lines` returns how many lines the panel may use; its argument is whether the subject is
        shown in full. `position_text`: the question's position among several."""
        super().__init__()
        self.spec = spec
        self._on_answer = on_answer
        self._count_available_lines = count_available_lines
        self._position_text = position_text
        self._state = initial_state(spec)
        self._earlier_questions: list[tuple[QuestionSpec, AnswerState]] = []
        """The questions that the current one has replaced, to which Esc returns."""
        self._clicked_index: int | None = None
        """The choice that was last clicked, if no key has been pressed since."""
        self._text_entry: TextEntry | None = None
        """What the open text field is for; None if none is open."""
        self._is_expanded = self.is_answered = self._is_ready = False
        self.is_text_in_prompt = False
        """Whether the user has typed something into the prompt. Enter may then be meant for the prompt, until another
        key is pressed in the panel."""
        self._hidden_line_count = 0
        """Number of lines of the subject that do not fit."""

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield create_subject_widget(self.spec.subject, id="subject")
        yield CommandField(id="command", compact=True)
        yield Static(id="reason")
        yield ChoiceList()
        yield Field(placeholder=self.spec.free_text.hint if self.spec.free_text else "", id="free-text")
        yield KeyLine(id="answers")

    def on_mount(self) -> None:
        self._is_ready = True
        self.fit_to_screen()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.fit_to_screen())

    @property
    def marked_choice(self) -> Choice | None:
        choices = current_choices(self.spec, self._state)
        return choices[self._state.marked_index] if self._state.marked_index < len(choices) else None

    def take_focus(self) -> None:
        """Move the focus to the list, or to the text field if there are no choices."""
        self.is_text_in_prompt = False
        if not self._pruning:
            self._focus_now(self if self.spec.choices else self._field)

    def _has_key_focus(self, widget: Widget) -> bool:
        """Whether the widget receives keys. This is true even before its focus event arrives."""
        return self.screen.focused is widget

    def _focus_now(self, widget: Widget) -> None:
        """Focus the widget immediately, so that it gets the next key."""
        self.screen.set_focus(widget)

    def take_focus_soon(self) -> None:
        """Take the focus once the panel is mounted. Keys typed before that are not meant for the question."""
        self.call_after_refresh(self.take_focus)

    def show_position(self, position_text: str) -> None:
        """Show the question's position among several."""
        if position_text != self._position_text:
            self._position_text = position_text
            self.fit_to_screen()

    # Keys

    @property
    def has_text_focus(self) -> bool:
        """Whether typed text goes to a field in the panel."""
        return self.spec.free_text is not None or self._text_entry is not None

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for the panel. Other characters are text for the prompt."""
        if key.key == "enter" and self.is_text_in_prompt:
            return False
        if not key.is_printable or self.has_text_focus:
            return True
        return is_list_key(key.key, self.spec, self._state, is_expanded=self._is_expanded)

    def insert_key(self, key: events.Key) -> bool:
        """Move the focus to the text field and insert the key. Returns False if the key should be handled as usual."""
        if self.spec.free_text is None or self._has_key_focus(self._field) or self._text_entry is not None:
            return False
        if key.character and key.is_printable:
            self._field.focus_and_insert(key.character)
        return True

    # Drawing

    @property
    def _field(self) -> Field:
        return self.query_one(Field)

    @property
    def _has_widgets(self) -> bool:
        """Whether the panel's widgets are mounted. They are removed before the panel."""
        return self._is_ready and not self.is_answered and not self._pruning

    def fit_to_screen(self) -> None:
        """Divide the available lines among the parts."""
        if not self._has_widgets:
            return
        parent_width = self.parent.size.width if isinstance(self.parent, Widget) else 0
        max_lines = max(1, self._count_available_lines(self._is_expanded))
        width = panel_inner_width(max(1, parent_width or self.screen.size.width), max_lines)
        palette, spec = get_palette(self.app.theme_variables), self.spec
        headline_line, reason_lines = headline_and_reason(spec, width, self._position_text)
        headline, reason = wrapped_text([headline_line], palette), wrapped_text(reason_lines, palette)
        subject_id = "#command" if self._is_editing_command else "#subject"
        subject_height = (
            max(3, self.query_one(CommandField).document.line_count)
            if self._is_editing_command
            else self.query_one("#subject").get_content_height(self.screen.size, self.screen.size, width)
        )
        content_lines: dict[PanelPart, int] = {
            "headline": len(headline.wrap(self.app.console, width)),
            "subject": subject_height,
            "reason": len(reason.wrap(self.app.console, width)) if reason_lines else 0,
        }
        layout = lay_out_panel(spec, self._state, self._text_entry, width, max_lines, content_lines, self._key_hints(0))
        self.set_class(not layout.lines["border"], "bare")
        self._hidden_line_count = layout.hidden_line_count
        self.query_one("#headline", Static).update(headline)
        self.query_one("#reason", Static).update(reason)
        for selector, part in _WIDGET_PARTS:
            widget = self.query_one(selector)
            widget.display = bool(layout.lines[part]) and (part != "subject" or selector == subject_id)
            widget.styles.height = widget.styles.max_height = layout.lines[part]
            widget.styles.margin = (int(part in layout.spaced_parts), 0, 0, 0)
        self._show_key_hints()
        self._show_choices(layout.list_width)

    @property
    def _is_editing_command(self) -> bool:
        return self._text_entry is not None and self._text_entry.kind == "command"

    def _show_choices(self, width: int) -> None:
        self.query_one(ChoiceList).show(choice_rows(self.spec, self._state, width), self._state.marked_index)
        if self.spec.shows_marked_change:
            show_change(self.query_one("#subject"), self._state.marked_index)

    def _key_hints(self, hidden_line_count: int) -> str:
        is_unfocused = not self.has_focus_within and self.is_attached and self.screen.focused is not None
        return question_key_hints(
            self.spec,
            self._state,
            self._text_entry,
            is_unfocused=is_unfocused,
            is_expanded=self._is_expanded,
            hidden_line_count=hidden_line_count,
            has_prompt=self.is_attached and bool(self.screen.query("#prompt")),
            edited_text=self.query_one(CommandField).text,
        )

    @on(events.Focus)
    @on(events.Blur)
    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    @on(CommandField.Changed)
    def _show_key_hints(self) -> None:
        if self._has_widgets:
            self.query_one(KeyLine).show(self._key_hints(self._hidden_line_count))

    # User actions

    def on_key(self, event: events.Key) -> None:
        has_command_focus = self._has_key_focus(self.query_one(CommandField))
        effect, state = panel_key_effect(
            event.key,
            self.spec,
            self._state,
            "command" if has_command_focus else "text" if self._has_key_focus(self._field) else "list",
            is_entering_text=self._text_entry is not None,
            is_empty=not self._field.value,
            is_expanded=self._is_expanded,
        )
        if self._process_key(effect, state, event):
            event.stop()
            event.prevent_default()

    def _process_key(self, effect: KeyEffect, state: AnswerState, event: events.Key) -> bool:
        """Apply a key's effect. Returns whether the key did anything."""
        match effect:
            case "stop" if self._earlier_questions:
                self._show_question(*self._earlier_questions.pop())
            case "stop":
                self._report_answer(None)
            case "leave text":
                self._set_entry(None)
            case "clear text":
                self._field.value = ""
                self._focus_now(self)
            case "focus text":
                self._focus_now(self._field)
            case "move":
                self._focus_now(self)
                self._set_state(state)
            case "relist":
                self._show_question(self.spec, state)
            case "choose":
                self._set_state(state)
                self._choose()
            case "toggle subject":
                self._is_expanded = not self._is_expanded
                self.fit_to_screen()
            case "scroll subject":
                scroll_subject(self.query_one("#subject"), event.key)
            case "text" if self.spec.free_text is not None and event.character:
                self._field.focus_and_insert(event.character)
            case _:
                return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        if self.spec.free_text is not None and not self._has_key_focus(self._field):
            event.stop()
            self._focus_now(self._field)
            self._field.post_message(events.Paste(event.text))

    def on_choice_list_clicked(self, event: ChoiceList.Clicked) -> None:
        """Mark a choice on the first click, and select it on the second."""
        event.stop()
        self._focus_now(self)
        is_second_click = self._clicked_index == event.index == self._state.marked_index
        self._set_state(replace(self._state, marked_index=event.index))
        self._clicked_index = event.index
        if is_second_click:
            self._choose()

    def _set_state(self, state: AnswerState) -> None:
        self._state, self._clicked_index, self.is_text_in_prompt = state, None, False
        self._show_choices(self.query_one(ChoiceList).scrollable_content_region.width)
        self._show_key_hints()

    def _choose(self) -> None:
        match choose(self.spec, self._state, self._field.value):
            case QuestionSpec() as question:
                self._earlier_questions.append((self.spec, self._state))
                self._show_question(question, initial_state(question))
            case TextEntry(kind="editor") as entry:
                self._edit_in_editor(entry)
            case TextEntry() as entry:
                self._set_entry(entry)
            case None | "":
                pass
            case answer:
                self._report_answer(answer)

    def _show_question(self, spec: QuestionSpec, state: AnswerState) -> None:
        """Show another question about the same subject, or other choices."""
        self.spec, self._state = spec, state
        self.fit_to_screen()

    def _set_entry(self, entry: TextEntry | None) -> None:
        """Open the text field for a choice, or return to the choices."""
        self._text_entry, self._field.value = entry, ""
        focused: Widget = self if entry is None else self._field
        if entry is not None:
            self._field.placeholder = entry.hint
        if entry is not None and self._is_editing_command:
            focused = field = self.query_one(CommandField)
            field.text = entry.initial_text
            field.move_cursor(field.document.end)
        self.fit_to_screen()
        self._focus_now(focused)

    def _edit_in_editor(self, entry: TextEntry) -> None:
        try:
            text = edit_in_editor(self.app, entry.initial_text, entry.file_suffix)
        except UsageError as error:
            problem = str(error)
        else:
            problem = "" if self._answer_with_text(entry, text) else "no changes made"
        if problem:
            self.query_one(KeyLine).show_message(sanitise(problem), "warn")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self.spec.allows_multiple:
            self._choose()
        else:
            self._answer_with_text(self._text_entry or self.spec.free_text, event.value)

    def on_command_field_command_submitted(self, event: CommandField.CommandSubmitted) -> None:
        event.stop()
        self._answer_with_text(self._text_entry, event.text)

    def _answer_with_text(self, entry: TextEntry | None, text: str) -> bool:
        """Answer with the text the user wrote. Returns False if it is not a valid answer."""
        answer = entry.parse_answer(text) if entry is not None else None
        if answer is not None:
            self._report_answer(answer)
        return answer is not None

    def _report_answer(self, answer: Answer | None) -> None:
        """Report the answer, but only once, because another key may already be queued."""
        if not self.is_answered:
            self.is_answered = True
            self._on_answer(answer)
