"""The model asks something. The screen knows the question and gives back words."""

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from agent.events import QuestionAsked
from tui.screens.guarded import GuardedScreen
from tui.text.sanitise import visible, visible_line
from tui.text.styles import palette_of
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine
from tui.widgets.told_lines import ToldLines


class QuestionScreen(GuardedScreen[str | None]):
    """Gives the answer: an option or the user's own words; empty when the user does not want to answer."""

    AUTO_FOCUS = "#words"

    def __init__(self, question: QuestionAsked, told: Sequence[str] = ()) -> None:
        """`told`: what the user was told just before, which this covers."""
        super().__init__()
        self.question = question
        self._told_before = tuple(told)

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield ToldLines(self._told_before)
            with VerticalScroll(id="subject", can_focus=False):
                yield Static(Text(visible(self.question.question), palette.strong))
            if self.question.options:
                options = (Option(Text(visible_line(option))) for option in self.question.options)
                yield OptionList(*options, id="options", compact=True, markup=False)
            yield Field(placeholder="your own words", id="words")
            yield KeyLine("Up, Down, Enter choose   PgUp, PgDn read   Esc leaves it unanswered", id="answers")

    def tell(self, told: Sequence[str]) -> None:
        """Shows what the user is told meanwhile."""
        self._told_before = tuple(told)
        if self.is_mounted:
            self.query_one(ToldLines).tell(told)

    def on_mount(self) -> None:
        self.query_one(ToldLines).tell(self._told_before)

    @property
    def is_written_in(self) -> bool:
        return True

    def on_key(self, event: events.Key) -> None:
        options = self.query(OptionList)
        match event.key:
            case "escape":
                self.dismiss("")
            case "up" | "down" if options and not self.query_one(Input).value:
                listed = options.first()
                listed.action_cursor_up() if event.key == "up" else listed.action_cursor_down()
            case "pageup" | "pagedown":
                subject = self.query_one("#subject", VerticalScroll)
                page = max(1, subject.size.height - 1)
                subject.scroll_relative(y=-page if event.key == "pageup" else page, animate=False)
            case _:
                return
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        words = event.value.strip()
        options = self.query(OptionList)
        if not words and options and options.first().highlighted is not None:
            words = self.question.options[options.first().highlighted or 0]
        if words:
            self.dismiss(words)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.question.options[event.option_index])
