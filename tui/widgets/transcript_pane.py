"""The transcript with its search field and the mark for new content."""

from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from ebbtide.tui import widgets
from ebbtide.tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:  # this module loads with the first search
    from ebbtide.tui.widgets.search_line import SearchLine


class TranscriptPane(Vertical):
    """The transcript and its search. While a search is open, its field receives the keys: Enter and Up go to older
    matches, Shift-Enter and Down to newer ones. Tab switches between field and transcript. Esc returns to where the
    search began."""

    class SearchOpened(Message):
        """A search was opened. It needs all messages to be loaded."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._focus_before_search: Widget | None = None
        """The widget that had the focus before the search."""
        self._searched_text = ""
        self._search_line: SearchLine | None = None
        """The search field, which stays here while it is closed; None before the first search."""
        self._is_reading = False
        """Whether text is being read for a search."""

    def compose(self) -> ComposeResult:
        yield TranscriptView(id="transcript")

    async def open_search(self) -> None:
        """Open the search field."""
        if self._open_search_line is None:
            self._focus_before_search = self.screen.focused
            if self._search_line is None:
                self._search_line = widgets.search_line.SearchLine(id="search")
                await self.mount(self._search_line)
            self._search_line.display = True
            self.add_class("searched")
            self.post_message(self.SearchOpened())
        if (line := self._open_search_line) is not None:
            line.open_field()
            if self._transcript.is_ready_to_search:
                self._search_if_changed(line)
            else:
                self._start_reading(line)

    def close_search(self, line: "SearchLine", *, goes_back: bool) -> None:
        """Close the search. `goes_back`: whether to return to where it began."""
        self._transcript.end_search(goes_back=goes_back)
        line.display, self._searched_text = False, ""
        self.remove_class("searched")
        if goes_back and self._focus_before_search is not None:
            self.screen.set_focus(self._focus_before_search)

    @property
    def _open_search_line(self) -> "SearchLine | None":
        """The search field if it is open."""
        return self._search_line if self._search_line is not None and self._search_line.display else None

    @property
    def _transcript(self) -> TranscriptView:
        return self.query_one(TranscriptView)

    def on_key(self, event: events.Key) -> None:
        line = self._open_search_line
        if line is None:
            return
        match event.key:
            case "escape":
                self.close_search(line, goes_back=True)
            case "enter" | "up" if line.has_field_focus:
                self._go_to_match(line, -1)
            case "shift+enter" | "down" if line.has_field_focus:
                self._go_to_match(line, 1)
            case "n" | "N" | "upper_n" if not line.has_field_focus:
                self._go_to_match(line, -1 if event.key == "n" else 1)
            case "tab" | "shift+tab":
                if line.has_field_focus:
                    self._transcript.focus()
                else:
                    line.focus_field()
            case _:
                return
        event.stop()
        event.prevent_default()

    def on_input_changed(self, message: Message) -> None:
        message.stop()
        if self._open_search_line is not None:
            self._search_if_changed(self._open_search_line)

    @on(TranscriptView.TranscriptLeft)
    def _close_search(self) -> None:
        if self._open_search_line is not None:
            self.close_search(self._open_search_line, goes_back=False)

    @on(TranscriptView.UnseenCountChanged)
    async def _show_unseen_count(self, message: TranscriptView.UnseenCountChanged) -> None:
        message.stop()
        if not self.query(widgets.new_content_indicator.NewContentIndicator):
            await self.mount(widgets.new_content_indicator.NewContentIndicator(id="below"))
        self.query_one(widgets.new_content_indicator.NewContentIndicator).show(message.count)

    def on_new_content_indicator_jump_requested(self) -> None:
        self._transcript.go_to_end()

    def search_again(self) -> None:
        """Repeat the search after blocks have been added."""
        if (line := self._open_search_line) is not None and line.search_text:
            self._searched_text = ""
            self._search_if_changed(line)

    def _search_if_changed(self, line: "SearchLine") -> bool:
        """If the text in the field has changed, search for it. Returns whether it has changed."""
        if line.search_text == self._searched_text and self._transcript.is_search_active:
            return False
        if line.search_text and not self._transcript.is_ready_to_search:
            self._start_reading(line)
            return True
        self._searched_text = line.search_text
        line.show_result(self._transcript.find(line.search_text), self.size.width)
        return True

    def _start_reading(self, line: "SearchLine") -> None:
        """Read the transcript's text in the background, then search for whatever the field contains by then."""
        line.show_reading()
        if not self._is_reading:
            self._is_reading = True
            self.run_worker(self._read_then_search(line), group="search")

    async def _read_then_search(self, line: "SearchLine") -> None:
        try:
            await self._transcript.cache_texts()
        finally:
            self._is_reading = False
        if self._open_search_line is line:
            self._search_if_changed(line)

    def _go_to_match(self, line: "SearchLine", step: int) -> None:
        if not self._search_if_changed(line):
            line.show_result(self._transcript.find_next(step), self.size.width)
