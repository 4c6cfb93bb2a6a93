"""Searching the prompt history."""

import asyncio

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.prompt.history import HistorySearch, search_history
from ebbtide.tui.text.sanitise import sanitise, sanitise_line
from ebbtide.tui.text.styles import Palette, clipped_text, get_palette
from ebbtide.tui.view.key_hints import key_hint_lines
from ebbtide.tui.widgets.field import Field

MAX_MESSAGE_LINES = 6
"""Maximum number of lines shown per message."""
_KEY_HINTS = ((96, "Ctrl-R older  Ctrl-S newer  Enter select  Esc back"), (76, "Ctrl-R older  Enter select  Esc back"))
"""Key hints by minimum width, widest first."""


class HistorySearchBar(Vertical):
    """The search bar for the prompt history. It receives all keys while it is open. Ctrl-R and Up go to older messages,
    Ctrl-S and Down to newer ones. Enter and Tab accept, and Esc closes the bar."""

    DEFAULT_CSS = """
    HistorySearchBar {
        height: auto;
        padding: 0 1;
        background: $surface;
    }
    HistorySearchBar #past-found { height: auto; }
    HistorySearchBar #past-line { height: 1; }
    HistorySearchBar #past-mark, HistorySearchBar #past-count { width: auto; height: 1; }
    HistorySearchBar #past-sought { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
    """

    def __init__(self, entries: tuple[str, ...]) -> None:
        super().__init__()
        self.result: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The message that was accepted; empty if the search was cancelled."""
        self._entries = entries
        self._search = search_history("", entries)

    def compose(self) -> ComposeResult:
        yield Static(id="past-found")
        with Horizontal(id="past-line"):
            yield Static(Text("history ", get_palette(self.app.theme_variables).dim), id="past-mark")
            yield Field(id="past-sought", compact=True, placeholder="search earlier messages")
            yield Static(id="past-count")

    def on_mount(self) -> None:
        field = self.query_one(Input)
        self.screen.set_focus(field)
        self._show_result()

    def prepend_text(self, text: str) -> None:
        """Insert text at the start of the search field."""
        field = self.query_one(Input)
        field.value = text + field.value
        field.cursor_position = len(field.value)

    @on(Input.Changed)
    def _update_search(self, message: Input.Changed) -> None:
        message.stop()
        self._search = search_history(message.value, self._entries, self._search)
        self._show_result()

    def on_key(self, event: events.Key) -> None:
        if self._process_key(event.key):
            event.stop()
            event.prevent_default()

    def on_descendant_blur(self) -> None:
        self._close_with("")

    def on_unmount(self) -> None:
        self._close_with("")

    def _close_with(self, message: str) -> None:
        if not self.result.done():
            self.result.set_result(message)

    def _process_key(self, key: str) -> bool:
        match key:
            case "ctrl+r" | "up":
                self._search = self._search.with_older_match()
            case "ctrl+s" | "down":
                self._search = self._search.with_newer_match()
            case "enter" | "tab":
                self._close_with(self._search.current_match)
            case "escape":
                self._close_with("")
            case _:
                return False
        self._show_result()
        return True

    def _show_result(self) -> None:
        palette, search = get_palette(self.app.theme_variables), self._search
        self.query_one("#past-found", Static).update(match_text(search, palette))
        count_text = f" {search.index + 1:,} of {len(search.matches):,}" if search.matches else " no match"
        key_hints = next((key_hints for min_width, key_hints in _KEY_HINTS if self.size.width >= min_width), "")
        text = Text.assemble(
            (f"{count_text}   ", palette.text), clipped_text(key_hint_lines(key_hints, self.size.width), palette)
        )
        self.query_one("#past-count", Static).update(text)


def match_text(search: HistorySearch, palette: Palette) -> Text:
    """Format the current message with the match highlighted. Only the lines around the match are shown."""
    start, end = search.match_range
    lines = search.current_match.split("\n")
    first_index = (
        max(search.current_match.count("\n", 0, start) - MAX_MESSAGE_LINES + 2, 0)
        if len(lines) > MAX_MESSAGE_LINES
        else 0
    )
    line_start = sum(len(line) + 1 for line in lines[:first_index])
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for index, line in enumerate(lines[first_index : first_index + MAX_MESSAGE_LINES]):
        text.append("\n" if index else "")
        left, right = (min(max(offset - line_start, 0), len(line)) for offset in (start, end))
        for segment, style in (
            (line[:left], palette.text),
            (line[left:right], palette.current_match),
            (line[right:], palette.text),
        ):
            text.append(sanitise_line(sanitise(segment)), style)
        line_start += len(line) + 1
    if len(lines) > first_index + MAX_MESSAGE_LINES:
        text.append(f" … {pluralize(len(lines) - first_index - MAX_MESSAGE_LINES, 'more line')}", palette.dim)
    return text
