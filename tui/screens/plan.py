"""Shall this plan be carried out? The screen knows the plan and its possible answers, not who asked."""

from collections.abc import Sequence
from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from agent.errors import UsageError
from agent.plan_events import PlanDecision, PlanSubmitted
from tui.screens.guarded import GuardedScreen
from tui.terminal.editor_screen import edited
from tui.text.sanitise import visible
from tui.text.styles import painted, palette_of
from tui.view.key_hints import key_lines
from tui.view.plan import FILE, PlanChoice, brief_keys, choice_for, choices_in, headline_of
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine
from tui.widgets.markdown_view import MarkdownView
from tui.widgets.told_lines import ToldLines

_LOW, _NARROW = 18, 30
"""Sizes of the screen below which the dialog has neither a frame nor empty lines."""
_LISTING = 10
"""Lines of the screen from which on the answers are listed."""
_TELLING = 22
"""Lines of the screen from which on there is room for what the user was told besides."""
_BETWEEN = 5
"""Lines of the frame, and empty ones below the headline, the plan and the answers."""
_KEYS = "Up, Down, Enter choose   PgUp, PgDn, Space read   Esc stops"
_BRIEFLY = "Enter chooses  PgDn reads  Esc stops"
_SCROLLING = ("up", "down", "pageup", "pagedown", "space", "home", "end")


class PlanScreen(GuardedScreen[PlanDecision | Literal["stop"] | None]):
    """Gives what the user decides, which may be to stop the turn, or None when the question was answered elsewhere."""

    AUTO_FOCUS = ""
    CSS = """
    PlanScreen #dialog { width: 100%; max-width: 130; max-height: 100%; }
    PlanScreen #subject { height: auto; min-height: 1; max-height: 100%; }
    PlanScreen #options { max-height: 6; }
    PlanScreen #dialog.bare { height: 100%; max-width: 100%; border: none; padding: 0; }
    PlanScreen #dialog.bare > * { margin: 0; }
    PlanScreen #dialog.bare > #headline { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    PlanScreen #dialog.bare > #subject { height: 1fr; }
    """

    def __init__(self, question: PlanSubmitted, told: Sequence[str] = ()) -> None:
        """`told`: what the user was told just before, which this covers."""
        super().__init__()
        self.question = question
        self._told_before = tuple(told)

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield ToldLines(self._told_before)
            yield Static(painted([headline_of(self.question)], palette), id="headline")
            yield MarkdownView(self.question.plan, id="subject")
            listed = OptionList(*(Option("") for _ in choices_in(self.question)), id="options", compact=True)
            listed.can_focus = False
            yield listed
            yield KeyLine(_KEYS, id="answers")
            yield Field(placeholder="what to do instead; Enter rejects the plan, Esc goes back", id="note")

    def on_mount(self) -> None:
        self.query_one("#note").display = False
        self.query_one(OptionList).highlighted = 0
        self.query_one(ToldLines).tell(self._told_before)

    def tell(self, told: Sequence[str]) -> None:
        """Shows what the user is told meanwhile."""
        self._told_before = tuple(told)
        if self.is_mounted:
            self.query_one(ToldLines).tell(told)
            self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """The plan gets all lines that the rest leaves. Where there are few, the rest gives way: the frame, what was
        told, the list of answers, the headline."""
        width, height = self.size
        is_bare = height < _LOW or width < _NARROW
        is_written = self.is_written_in
        self.query_one("#dialog").set_class(is_bare, "bare")
        self.query_one("#headline").display = height > 2
        listed, told = self.query_one(OptionList), self.query_one(ToldLines)
        listed.display = height >= _LISTING and not is_written
        told.show_at_most(0 if is_bare or height < _TELLING else 2)
        keys = self.query_one(KeyLine)
        keys.display = not is_written and height > 1
        self._name_keys(listed=listed.display, is_bare=is_bare)
        inside = width if is_bare else min(130, width) - 4
        for place, choice in enumerate(choices_in(self.question)):
            row = painted([choice.row(inside)], palette_of(self.app.theme_variables))
            listed.replace_option_prompt_at_index(place, row)
        others = 1 + (listed.option_count if listed.display else 0) + len(key_lines(_KEYS, inside)) + is_written
        said = told.lines_at(inside) + 1 if told.display else 0
        subject = self.query_one(MarkdownView)
        subject.styles.max_height = None if is_bare else max(3, height - _BETWEEN - others - said)

    def _name_keys(self, *, listed: bool, is_bare: bool) -> None:
        keys = self.query_one(KeyLine)
        if listed:
            keys.show(_BRIEFLY if is_bare else _KEYS)
        else:
            keys.tell(brief_keys(self.question, self.size.width), "text")

    @property
    def is_written_in(self) -> bool:
        return self.is_mounted and bool(self.query_one("#note").display)

    def means(self, key: events.Key) -> bool:
        is_choice = choice_for(key.key, self.question) is not None
        return not key.is_printable or self.is_written_in or is_choice or key.key == "space"

    def on_key(self, event: events.Key) -> None:
        if self.is_written_in:
            if event.key == "escape":
                event.stop()
                self._write(wanted=False)
            return
        choice = choice_for(event.key, self.question)
        listed = self.query_one(OptionList)
        if event.key == "escape":
            self.dismiss("stop")
        elif choice is not None:
            self._choose(choice)
        elif event.key in ("up", "down") and listed.display:
            listed.action_cursor_up() if event.key == "up" else listed.action_cursor_down()
        elif event.key == "enter" and listed.display and listed.highlighted is not None:
            self._choose(choices_in(self.question)[listed.highlighted])
        elif event.key in _SCROLLING:
            self._scroll(event.key)
        else:
            return
        event.stop()

    def _scroll(self, key: str) -> None:
        subject = self.query_one(MarkdownView)
        match key:
            case "home":
                subject.scroll_home(animate=False)
            case "end":
                subject.scroll_end(animate=False)
            case _:
                step = 1 if key in ("up", "down") else max(1, subject.size.height - 1)
                subject.scroll_relative(y=-step if key in ("up", "pageup") else step, animate=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._choose(choices_in(self.question)[event.option_index])

    def _choose(self, choice: PlanChoice) -> None:
        if choice.decision is not None:
            self.dismiss(choice.decision)
        elif choice.key == "e":
            self._edit()
        else:
            self._write(wanted=True)

    def _write(self, *, wanted: bool) -> None:
        """Lets the user write why not, or goes back."""
        note = self.query_one("#note")
        note.display = wanted
        self._fit()
        self.set_focus(note if wanted else None)

    def _edit(self) -> None:
        """Changes the plan in the user's editor; what comes of it is asked about again."""
        try:
            text = edited(self.app, self.question.plan, FILE)
        except UsageError as error:
            return self.query_one(KeyLine).tell(visible(str(error)), "warn")
        if not text.strip():
            self.query_one(KeyLine).tell("the plan was left empty: nothing is changed", "warn")
        elif text != self.question.plan:
            self.dismiss(PlanDecision("edit", plan=text))
        return None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(PlanDecision("reject", note=visible(event.value.strip())))
