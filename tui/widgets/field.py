"""One-line input fields."""

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widgets import Input
from textual.widgets.input import Selection

from ebbtide.tui.text.graphemes import grapheme_end, grapheme_start
from ebbtide.tui.text.sanitise import (
    count_invisible_characters,
    describe_invisible_count,
    line_with_control_pictures,
    normalise_paste,
)
from ebbtide.tui.text.spans import parse_inline_code
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.panel import PanelAction, PanelRow
from ebbtide.tui.widgets.text_box import TextBox

_ACTION_BY_KEY = {
    **dict.fromkeys(("alt+left", "alt+b"), "cursor_left_word"),
    **dict.fromkeys(("alt+right", "alt+f"), "cursor_right_word"),
    **dict.fromkeys(("alt+backspace", "ctrl+backspace"), "delete_left_word"),
    **dict.fromkeys(("alt+delete", "ctrl+delete", "alt+d"), "delete_right_word"),
    "alt+shift+left": "cursor_left_word(True)", "alt+shift+right": "cursor_right_word(True)",
    "shift+backspace": "delete_left", "shift+delete": "delete_right", "super+left": "home", "super+right": "end",
}  # fmt: skip
"""Keys that work in shells and terminals but that Textual ignores or handles differently."""


class Field(Input):
    """An input that keeps text exactly as typed, draws it safely and counts invisible characters. Its cursor does not
    blink, so that the app does nothing while idle."""

    DEFAULT_CSS = """
    Field > .input--placeholder { color: $text-muted; }
    Field:ansi > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    """

    def on_mount(self) -> None:
        self.cursor_blink = False
        self.select_on_focus = False  # so that the next key does not replace the text

    def focus_and_insert(self, character: str) -> None:
        """Take the focus and insert a character, because the user is continuing text that was begun in another
        widget."""
        self.screen.set_focus(self)  # at once, so that the next key reaches it
        self.insert_text_at_cursor(character)

    async def _on_key(self, event: events.Key) -> None:
        action = _ACTION_BY_KEY.get(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)

    def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
        self.replace(normalise_paste(event.text).rstrip("\n"), *sorted(self.selection))

    # Drawing

    @property
    def _displayed_value(self) -> str:
        return "•" * len(self.value) if self.password else line_with_control_pictures(self.value)

    @property
    def _value(self) -> Text:
        return Text(self._displayed_value, no_wrap=True, overflow="ignore", end="")

    def _position_to_cell(self, position: int) -> int:
        return cell_len(self._displayed_value[:position])

    def render_line(self, y: int) -> Strip:
        strip, warning = super().render_line(y), describe_invisible_count(count_invisible_characters(self.value))
        while warning and 2 * len(warning) > strip.cell_length:
            warning = warning.rpartition(" ")[0]
        if y or not warning:
            return strip
        warning_segments = clipped_text(
            [parse_inline_code(f"  {warning}", "warn")], get_palette(self.app.theme_variables)
        ).render(self.app.console)
        cropped = strip.crop(0, strip.cell_length - len(warning) - 2)
        return Strip.join([cropped, Strip(warning_segments).apply_style(self.rich_style)])

    # Keys that move the cursor by displayed character

    def _position_before(self) -> int:
        return grapheme_start(self._displayed_value, self.cursor_position)

    def _position_after(self) -> int:
        return grapheme_end(self._displayed_value, self.cursor_position)

    def action_cursor_left(self, select: bool = False) -> None:
        if select or self.selection.is_empty:
            self.selection = Selection(
                self.selection.start if select else self._position_before(), self._position_before()
            )
        else:
            super().action_cursor_left(select)

    def action_cursor_right(self, select: bool = False) -> None:
        if select or self.selection.is_empty:
            self.selection = Selection(
                self.selection.start if select else self._position_after(), self._position_after()
            )
        else:
            super().action_cursor_right(select)

    def action_delete_left(self) -> None:
        if self.selection.is_empty:
            self.delete(self._position_before(), self.cursor_position)
        else:
            self.delete_selection()

    def action_delete_right(self) -> None:
        if self.selection.is_empty:
            self.delete(self.cursor_position, self._position_after())
        else:
            self.delete_selection()


class ActionField(Field):
    """A field for text that a list action needs. It is visible only while open."""

    pending_action: tuple[PanelAction, PanelRow] | None = None
    """The action and the row that the text is for; None while the field is closed."""

    def open_field(self, action: PanelAction, row: PanelRow) -> None:
        request = action.text_request
        assert request is not None
        self.pending_action = (action, row)
        self.value = request.initial_text(row)
        self.placeholder = request.placeholder(row)
        self.select_on_focus = request.replaces_initial_text
        self.password = request.is_hidden
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    @property
    def key_hints(self) -> str:
        """The key hints while the field is open; empty while it is closed."""
        request = self.pending_action[0].text_request if self.pending_action is not None else None
        return request.key_hints if request is not None else ""

    def close_field(self) -> PanelAction | None:
        """Close the field and return the action that it was opened for."""
        pending_action, self.pending_action = self.pending_action, None
        self.display = False
        return pending_action[0] if pending_action is not None else None


class CommandField(TextBox):
    """A text that can be edited: Enter submits it, Alt-Enter inserts a line break."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", show=False, priority=True),
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", show=False, priority=True),
    ]

    class CommandSubmitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def action_take(self) -> None:
        self.post_message(self.CommandSubmitted(self.text))

    def action_new_line(self) -> None:
        if not self.read_only:
            self.insert("\n")
