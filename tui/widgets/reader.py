"""The transcript, the line of a search in it, and the mark of what came below. The reader knows no session."""

from typing import TYPE_CHECKING

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Input, Static

from tui.palette import palette_of
from tui.widgets.field import Field
from tui.widgets.transcript import Transcript

if TYPE_CHECKING:  # a type only: loaded with the first search
    from tui.search import Found

_WIDE = 76
"""Columns from which on there is room to say which keys there are."""


class Reader(Vertical):
    """While words are looked for, their line takes the keys: Enter and Up go to older places, Shift+Enter and Down to
    newer ones, Tab into the transcript and back, and Esc to where the user was."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._before: Widget | None = None
        """What had the focus before the search."""
        self._looked_for = ""

    def compose(self) -> ComposeResult:
        yield Transcript(id="transcript")
        with Horizontal(id="search"):
            yield Static(id="search-mark")
            yield Field(id="sought", compact=True, placeholder="find in the conversation")
            yield Static(id="places")

    def open_search(self) -> None:
        """Lets the user write what to look for."""
        from tui.search import Found  # noqa: PLC0415  # deferred: with the first search

        if not self._is_open:
            self._before = self.screen.focused
            self._line.display = True
            self.add_class("searched")
            palette = palette_of(self.app.theme_variables)
            self.query_one("#search-mark", Static).update(Text("find ", palette.dim))
            self._tell(Found())
        box = self.query_one("#sought", Input)
        box.focus()
        box.action_select_all()
        self._look()

    def close_search(self, *, back: bool) -> None:
        """Ends it; `back` to where the user was."""
        self._transcript.end_search(back=back)
        self._line.display, self._looked_for = False, ""
        self.remove_class("searched")
        if back and self._before is not None:
            self._before.focus()

    @property
    def _is_open(self) -> bool:
        return bool(self._line.display)

    @property
    def _line(self) -> Horizontal:
        return self.query_one("#search", Horizontal)

    @property
    def _transcript(self) -> Transcript:
        return self.query_one(Transcript)

    def on_key(self, event: events.Key) -> None:
        if not self._is_open:
            return
        is_typing = self.query_one("#sought", Input).has_focus
        match event.key:
            case "escape":
                self.close_search(back=True)
            case "enter" | "up" if is_typing:
                self._go(-1)
            case "shift+enter" | "down" if is_typing:
                self._go(1)
            case "n" | "N" | "upper_n" if not is_typing:
                self._go(-1 if event.key == "n" else 1)
            case "tab" | "shift+tab":
                (self._transcript if is_typing else self.query_one("#sought", Input)).focus()
            case _:
                return
        event.stop()
        event.prevent_default()

    @on(Input.Changed, "#sought")
    def _changed(self, message: Input.Changed) -> None:
        message.stop()
        if self._is_open:
            self._look()

    @on(Transcript.Left)
    def _left(self) -> None:
        if self._is_open:
            self.close_search(back=False)

    @on(Transcript.Unseen)
    async def _show_unseen(self, message: Transcript.Unseen) -> None:
        from tui.widgets.below import BelowMark  # noqa: PLC0415  # deferred: with the first that comes unseen

        message.stop()
        if not self.query(BelowMark):
            await self.mount(BelowMark(id="below"))
        self.query_one(BelowMark).show(message.count)

    def on_below_mark_followed(self) -> None:
        self._transcript.go_end()

    def _look(self) -> bool:
        """Looks for what is written, unless that is done. Tells whether it was not."""
        words = self.query_one("#sought", Input).value
        if words == self._looked_for and self._transcript.is_searched:
            return False
        self._looked_for = words
        self._tell(self._transcript.find(words))
        return True

    def _go(self, step: int) -> None:
        if not self._look():
            self._tell(self._transcript.find_next(step))

    def _tell(self, found: "Found") -> None:
        palette = palette_of(self.app.theme_variables)
        count = f"{found.at:,} of {found.of:,}" if found.of else "not found" if self._looked_for else ""
        keys = "   Enter older  Shift+Enter newer  Esc back" if self.size.width >= _WIDE else ""
        self.query_one("#places", Static).update(Text.assemble((count, palette.text), (keys, palette.dim)))
