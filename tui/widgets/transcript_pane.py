"""The transcript with its search field and the mark for new content."""

from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from ebbtide.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:  # a type only: loaded with the first search
    from ebbtide.tui.widgets.searchline import SearchLine


class TranscriptPane(Vertical):
    """While a search is open, its field takes the keys: Enter and Up go to older matches, Shift-Enter and Down to
    newer ones, Tab switches to the transcript and back, and Esc returns to where the user was."""

    class SearchOpened(Message):
        """A search over all messages was opened."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._before: Widget | None = None
        """The widget with the focus before the search."""
        self._looked_for = ""
        self._search: SearchLine | None = None
        """The search field, open or closed; None before the first search."""
        self._is_reading = False
        """Whether the text for the search is being read."""

    def compose(self) -> ComposeResult:
        yield TranscriptView(id="transcript")

    async def open_search(self) -> None:
        """Open the search field."""
        from ebbtide.tui.widgets.searchline import SearchLine  # noqa: PLC0415  # deferred: with the first search

        if self._open_line is None:
            self._before = self.screen.focused
            if self._search is None:
                self._search = SearchLine(id="search")
                await self.mount(self._search)
            self._search.display = True
            self.add_class("searched")
            self.post_message(self.SearchOpened())
        if (line := self._open_line) is not None:
            line.begin()
            if self._transcript.is_read:
                self._look(line)
            else:
                self._read_for_search(line)

    def close_search(self, line: "SearchLine", *, back: bool) -> None:
        """Close the search; `back` returns to the earlier position."""
        self._transcript.end_search(back=back)
        line.display, self._looked_for = False, ""
        self.remove_class("searched")
        if back and self._before is not None:
            self.screen.set_focus(self._before)

    @property
    def _open_line(self) -> "SearchLine | None":
        """The search field if open."""
        return self._search if self._search is not None and self._search.display else None

    @property
    def _transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    def on_key(self, event: events.Key) -> None:
        line = self._open_line
        if line is None:
            return
        match event.key:
            case "escape":
                self.close_search(line, back=True)
            case "enter" | "up" if line.is_written:
                self._go(line, -1)
            case "shift+enter" | "down" if line.is_written:
                self._go(line, 1)
            case "n" | "N" | "upper_n" if not line.is_written:
                self._go(line, -1 if event.key == "n" else 1)
            case "tab" | "shift+tab":
                if line.is_written:
                    self._transcript.focus()
                else:
                    line.write()
            case _:
                return
        event.stop()
        event.prevent_default()

    def on_input_changed(self, message: Message) -> None:
        message.stop()
        if self._open_line is not None:
            self._look(self._open_line)

    @on(TranscriptView.TranscriptLeft)
    def _close_search(self) -> None:
        if self._open_line is not None:
            self.close_search(self._open_line, back=False)

    @on(TranscriptView.Unseen)
    async def _show_unseen(self, message: TranscriptView.Unseen) -> None:
        from ebbtide.tui.widgets.below_mark import BelowMark  # noqa: PLC0415  # deferred: with the first that comes unseen

        message.stop()
        if not self.query(BelowMark):
            await self.mount(BelowMark(id="below"))
        self.query_one(BelowMark).show(message.count)

    def on_below_mark_jump_requested(self) -> None:
        self._transcript.go_end()

    def look_again(self) -> None:
        """Search again: there are more blocks."""
        if (line := self._open_line) is not None and line.words:
            self._looked_for = ""
            self._look(line)

    def _look(self, line: "SearchLine") -> bool:
        """Start the search if the words changed; return whether they did."""
        if line.words == self._looked_for and self._transcript.is_searched:
            return False
        if line.words and not self._transcript.is_read:
            self._read_for_search(line)
            return True
        self._looked_for = line.words
        line.show_found(self._transcript.find(line.words), self.size.width)
        return True

    def _read_for_search(self, line: "SearchLine") -> None:
        """Read the text in the background, then search for the current words."""
        line.show_reading()
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read_first(line), group="search")

    async def _read_first(self, line: "SearchLine") -> None:
        try:
            await self._transcript.read_texts()
        finally:
            self._is_reading = False
        if self._open_line is line:
            self._look(line)

    def _go(self, line: "SearchLine", step: int) -> None:
        if not self._look(line):
            line.show_found(self._transcript.find_next(step), self.size.width)
