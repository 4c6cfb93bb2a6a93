"""The question panel: subject, choices and key hints."""

from collections.abc import Callable
from dataclasses import replace

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, Static

from ebbtide.agent.errors import UsageError
from ebbtide.tui.terminal.editor_screen import edit_in_editor
from ebbtide.tui.text.sanitise import invisible_count, invisible_words, sanitised
from ebbtide.tui.text.styles import palette_of, wrapped_text
from ebbtide.tui.view.key_hints import key_lines
from ebbtide.tui.view.question import (
    Answer,
    AnswerState,
    Choice,
    KeyEffect,
    QuestionSpec,
    Writing,
    choices_of,
    is_known,
    key_effect,
    key_effect_in_text,
    ticked_answer,
)
from ebbtide.tui.view.question_lines import (
    Part,
    allot_lines,
    headline_and_reason,
    height_of,
    question_key_hints,
    rows_of,
)
from ebbtide.tui.widgets.choices import ChoiceList
from ebbtide.tui.widgets.field import CommandField, Field
from ebbtide.tui.widgets.keyline import KeyLine
from ebbtide.tui.widgets.question_subject import read_on, subject_view

_LOW, _NARROW = 6, 30
"""Sizes below which it has no border."""
_AIRY = 18
"""Minimum height for blank lines between its parts."""
_PLACES: tuple[tuple[str, Part], ...] = (
    ("#headline", "headline"),
    ("#subject", "subject"),
    ("#command", "subject"),
    ("#reason", "reason"),
    ("ChoiceList", "list"),
    ("#words", "field"),
    ("#answers", "keys"),
)
"""The part of each widget; an edited command replaces the subject."""
_APART = ("ChoiceList", "#subject", "#command", "#answers", "#reason")
"""Widgets with a blank line above if there is room, most important first."""


class QuestionPanel(Vertical, can_focus=True):
    """Returns the answer once; None for Esc. Its height is given from outside."""

    DEFAULT_CSS = """
    QuestionPanel { height: auto; padding: 0 1; border-top: solid $warning; background: $surface; }
    QuestionPanel.bare { border: none; padding: 0; }
    QuestionPanel > #headline, QuestionPanel > #reason { height: auto; }
    QuestionPanel > #command { border: none; padding: 0; background: $panel; }
    QuestionPanel > #words { height: 1; border: none; padding: 0 0 0 2; background: $panel; }
    QuestionPanel > #subject, QuestionPanel > ChoiceList { background: $surface; scrollbar-size-vertical: 1; }
    QuestionPanel > #subject.code { background: $panel; }
    QuestionPanel > #subject > Static { width: 100%; height: auto; }
    """

    def __init__(
        self,
        spec: QuestionSpec,
        answered: Callable[[Answer | None], None],
        room: Callable[[bool], int],
        place: str = "",
    ) -> None:
        """`room`: returns the available lines, given whether the subject is shown whole. `place`: position among
        several questions."""
        super().__init__()
        self.spec = spec
        self._answered = answered
        self._room = room
        self._place = place
        self._marked = AnswerState()
        self._clicked: int | None = None
        """The choice marked by the mouse."""
        self._writing: Writing | None = None
        """The text field of a choice, while open."""
        self._is_whole = self.is_over = self._is_ready = False
        self.is_beside = False
        """Something was typed into the prompt: Enter may belong to that, until another key is pressed here."""
        self._hidden = 0
        """Lines of the subject that do not fit."""

    def compose(self) -> ComposeResult:
        yield Static(id="headline")
        yield subject_view(self.spec.subject, id="subject")
        yield CommandField(id="command", compact=True)
        yield Static(id="reason")
        yield ChoiceList()
        yield Field(placeholder=self.spec.words.hint if self.spec.words else "", id="words")
        yield KeyLine(id="answers")

    def on_mount(self) -> None:
        self._is_ready = True
        self.fit()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.fit())

    @property
    def marked_choice(self) -> Choice | None:
        choices = choices_of(self.spec, self._marked)
        return choices[self._marked.at] if self._marked.at < len(choices) else None

    def take_focus(self) -> None:
        """Take the focus."""
        self.is_beside = False
        if not self._pruning:
            self._to(self if self.spec.choices else self._field)

    def _is_in(self, widget: Widget) -> bool:
        """Whether keys go to the panel, even before the focus event arrives."""
        return self.screen.focused is widget

    def _to(self, widget: Widget) -> None:
        """Focus the widget at once: the next key is for it."""
        self.screen.set_focus(widget)

    def take_focus_soon(self) -> None:
        """Take the focus as soon as the panel is mounted; text typed before that is not for it."""
        self.call_after_refresh(self.take_focus)

    def show_position(self, place: str) -> None:
        """Show the position among several questions."""
        if place != self._place:
            self._place = place
            self.fit()

    # What keys are for

    @property
    def has_text_focus(self) -> bool:
        """Whether typed text goes to one of its fields."""
        return self.spec.words is not None or self._writing is not None

    def accepts_key(self, key: events.Key) -> bool:
        """Whether a key is for the panel; other characters are text for the prompt."""
        if key.key == "enter" and self.is_beside:
            return False
        if not key.is_printable or self.has_text_focus:
            return True
        return is_known(key.key, self.spec, self._marked, is_whole=self._is_whole)

    def write(self, key: events.Key) -> bool:
        """Insert a key as text; return whether that was possible."""
        if self.spec.words is None or self._is_in(self._field) or self._writing is not None:
            return False
        if key.character and key.is_printable:
            self._field.take_over(key.character)
        return True

    # How it is drawn

    @property
    def _field(self) -> Field:
        return self.query_one(Field)

    @property
    def _has_parts(self) -> bool:
        """Whether its widgets are mounted. During removal they go before the panel does."""
        return self._is_ready and not self.is_over and not self._pruning

    def fit(self) -> None:
        """Distribute the lines over its parts."""
        if not self._has_parts:
            return
        desk = self.parent.size.width if isinstance(self.parent, Widget) else 0
        width = max(1, desk or self.screen.size.width)
        lines = max(1, self._room(self._is_whole))
        inside = width if width < _NARROW or lines < _LOW else width - 2
        palette, spec = palette_of(self.app.theme_variables), self.spec
        writes = self._writing.how if self._writing is not None else ""
        first, because = headline_and_reason(spec, inside, self._place)
        headline, reason = wrapped_text([first], palette), wrapped_text(because, palette)
        about, subject = 0, "#command" if writes == "command" else "#subject"
        if writes != "command":
            about = self.query_one("#subject").get_content_height(self.screen.size, self.screen.size, inside)
        given = allot_lines(
            lines,
            {
                "headline": len(headline.wrap(self.app.console, inside)),
                "subject": max(3, self.query_one(CommandField).document.line_count) if writes == "command" else about,
                "list": 0 if writes else height_of(spec, self._marked, inside),
                "field": int(spec.words is not None or writes == "words"),
                "keys": len(key_lines(self._keys(0), inside)),
                "border": 1,
                "reason": len(reason.wrap(self.app.console, inside)) if because else 0,
                "air": 4 if lines >= _AIRY else 0,
            },
        )
        self.set_class(not given["border"], "bare")
        self._hidden = max(0, about - given["subject"])
        self.query_one("#headline", Static).update(headline)
        self.query_one("#reason", Static).update(reason)
        for place, part in _PLACES:
            one = self.query_one(place)
            one.display = bool(given[part]) and (part != "subject" or place == subject)
            one.styles.height = one.styles.max_height = given[part]
        shown = [one for place in _APART if (one := self.query_one(place)).display]
        is_spare = given["list"] > len(rows_of(spec, replace(self._marked, at=0), inside))
        for at, one in enumerate(shown):
            # Lines for a choice that is long while it is marked part the list from the keys, too.
            is_apart = at < given["air"] and not (is_spare and one.id == "answers")
            one.styles.margin = (int(is_apart), 0, 0, 0)
        self._show_keys()
        self._list(inside - (height_of(spec, self._marked, inside) > given["list"]))

    def _list(self, width: int) -> None:
        self.query_one(ChoiceList).show(rows_of(self.spec, self._marked, width), self._marked.at)

    def _keys(self, hidden: int) -> str:
        """The current key hints."""
        is_away = not self.has_focus_within and self.is_attached and self.screen.focused is not None
        return question_key_hints(
            self.spec, self._marked, self._writing, is_away=is_away, is_whole=self._is_whole, hidden=hidden
        )

    @on(events.Focus)
    @on(events.Blur)
    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    @on(CommandField.Changed)
    def _show_keys(self) -> None:
        if self._has_parts:
            count = invisible_count(self.query_one(CommandField).text) if self._writing is not None else 0
            told = "  ".join(filter(None, (invisible_words(count), self._keys(self._hidden))))
            self.query_one(KeyLine).show(told)

    # What the user does

    def on_key(self, event: events.Key) -> None:
        did, marked = self._key_effect(event.key)
        if self._process_key(did, marked, event):
            event.stop()
            event.prevent_default()

    def _key_effect(self, key: str) -> tuple[KeyEffect, AnswerState]:
        if self._is_in(self.query_one(CommandField)):
            return ("back" if key == "escape" else "nothing"), self._marked
        if not self._is_in(self._field):
            return key_effect(key, self.spec, self._marked, is_whole=self._is_whole)
        is_writing, is_empty = self._writing is not None, not self._field.value
        return key_effect_in_text(
            key, self.spec, self._marked, is_writing=is_writing, is_empty=is_empty, is_whole=self._is_whole
        )

    def _process_key(self, did: KeyEffect, marked: AnswerState, event: events.Key) -> bool:
        """Handle a key; return whether it has a meaning."""
        match did:
            case "stopped":
                self._give(None)
            case "back":
                self._go_back()
            case "cleared":
                self._field.value = ""
                self._to(self)
            case "to words":
                self._to(self._field)
            case "moved":
                self._to(self)
                self._mark(marked)
            case "chosen":
                self._mark(marked)
                self._choose()
            case "whole":
                self._is_whole = not self._is_whole
                self.fit()
            case "read":
                read_on(self.query_one("#subject"), event.key)
            case "text" if self.spec.words is not None and event.character:
                self._field.take_over(event.character)
            case _:
                return False
        return True

    def on_paste(self, event: events.Paste) -> None:
        if self.spec.words is not None and not self._is_in(self._field):
            event.stop()
            self._to(self._field)
            self._field.post_message(events.Paste(event.text))

    def on_choice_list_clicked(self, event: ChoiceList.Clicked) -> None:
        """The first click marks a choice, the second selects it."""
        event.stop()
        self._to(self)
        again = self._clicked == event.index == self._marked.at
        self._mark(AnswerState(event.index, self._marked.ticked, self._marked.for_project))
        self._clicked = event.index
        if again:
            self._choose()

    def _mark(self, marked: AnswerState) -> None:
        self._marked, self._clicked, self.is_beside = marked, None, False
        self._list(self.query_one(ChoiceList).scrollable_content_region.width)
        self._show_keys()

    def _choose(self) -> None:
        choice = self.marked_choice
        if choice is None:
            return
        if self.spec.several:
            self._give(ticked_answer(self.spec, self._marked, self._field.value.strip()))
        elif choice.writes is not None:
            self._write(choice.writes)
        else:
            self._give(choice.answer)

    def _write(self, writing: Writing) -> None:
        if writing.how == "editor":
            return self._edit(writing)
        self._writing = writing
        if writing.how == "command":
            field = self.query_one(CommandField)
            field.text = writing.before
            field.move_cursor(field.document.end)
            self.fit()
            self._to(field)
        else:
            self._field.placeholder = writing.hint
            self.fit()
            self._to(self._field)
        return None

    def _go_back(self) -> None:
        self._writing = None
        self._field.value = ""
        self.fit()
        self._to(self)

    def _edit(self, writing: Writing) -> None:
        try:
            text = edit_in_editor(self.app, writing.before, writing.file)
        except UsageError as error:
            self._warn(str(error))
            return
        if not self._give_written(writing, text):
            self._warn("nothing was changed")

    def _warn(self, text: str) -> None:
        self.query_one(KeyLine).show_message(sanitised(text), "warn")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        value = event.value
        if self.spec.several:
            value = ticked_answer(self.spec, self._marked, value.strip())
        self._give_written(self._writing or self.spec.words, value)

    def on_command_field_command_submitted(self, event: CommandField.CommandSubmitted) -> None:
        event.stop()
        self._give_written(self._writing, event.text)

    def _give_written(self, writing: Writing | None, text: str) -> bool:
        """Answer with the written text; return whether it is an answer."""
        answer = writing.answer(text) if writing is not None else None
        if answer is not None:
            self._give(answer)
        return answer is not None

    def _give(self, answer: Answer | None) -> None:
        """Return the answer, only once: a second key may already be queued."""
        if not self.is_over:
            self.is_over = True
            self._answered(answer)
