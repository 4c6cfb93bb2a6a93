"""One of many, found by typing. A picker knows rows of text, not what they stand for."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.text.sanitise import visible_line
from tui.text.styles import Palette, palette_of
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine


@dataclass(frozen=True, slots=True)
class PickerChoice:
    value: str
    label: str
    before: str = ""
    """A short column before the label, such as an age."""
    after: str = ""
    """Dim words after the label."""
    own: bool = False
    """The one in use now, marked with a dot."""


class Picker(ModalScreen[str]):
    """Gives the value of the chosen row; empty when none was chosen."""

    AUTO_FOCUS = "#filter"

    def __init__(self, title: str, choices: Sequence[PickerChoice], empty: str) -> None:
        super().__init__()
        self._heading = title
        self._choices = tuple(choices)
        self._found = self._choices
        self._empty = empty

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            yield Static(Text(self._heading, palette.strong), id="headline")
            yield Field(placeholder="type to find", id="filter")
            yield OptionList(id="options", compact=True, markup=False)
            yield Static(Text(self._empty, palette.dim), id="empty")
            yield KeyLine("Up, Down   Enter takes   Esc leaves", id="answers")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._fill("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        highlighted = self.query_one(OptionList).highlighted
        if self._found and highlighted is not None:
            self.dismiss(self._found[highlighted].value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._found[event.option_index].value)

    def on_key(self, event: events.Key) -> None:
        listed = self.query_one(OptionList)
        match event.key:
            case "escape":
                self.dismiss("")
            case "up":
                listed.action_cursor_up()
            case "down":
                listed.action_cursor_down()
            case _:
                return
        event.stop()

    def _fill(self, words: str) -> None:
        palette = palette_of(self.app.theme_variables)
        self._found = matching(self._choices, words)
        column = max((len(choice.before) for choice in self._choices), default=0)
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options([Option(_row(choice, column, palette)) for choice in self._found])
        listed.highlighted = 0 if self._found else None
        listed.display = bool(self._found)
        self.query_one("#empty").display = not self._found


def matching(choices: Sequence[PickerChoice], words: str) -> tuple[PickerChoice, ...]:
    """The choices that contain every word, in the order given."""
    wanted = words.lower().split()
    return tuple(choice for choice in choices if all(word in _searched(choice) for word in wanted))


def _searched(choice: PickerChoice) -> str:
    return f"{choice.value} {choice.label} {choice.after}".lower()


def _row(choice: PickerChoice, column: int, palette: Palette) -> Text:
    row = Text(no_wrap=True, overflow="ellipsis", end="")
    if column:
        row.append(visible_line(choice.before).rjust(column) + "  ", palette.dim)
    row.append("● " if choice.own else "  ", palette.good)
    row.append(visible_line(choice.label), palette.strong if choice.own else palette.text)
    if choice.after:
        row.append(f"  {visible_line(choice.after)}", palette.dim)
    return row
