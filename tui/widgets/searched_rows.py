"""Rows with text search."""

import asyncio
from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tui import widgets
from ebbtide.tui.widgets.scrolled_rows import ScrolledRows
from ebbtide.tui.widgets.selection import with_style_on_range

if TYPE_CHECKING:  # these modules load with the first search
    from ebbtide.tui.widgets.text_finder import TextFinder
    from ebbtide.tui.widgets.transcript_search import SearchResult, TranscriptSearch

MAX_BLOCKS_SEARCHED_AT_ONCE = 300
"""Maximum number of blocks whose text is read in the event loop. If there are more, they are read in a thread before
the search."""


class SearchedRows(ScrolledRows):
    """Highlights a search's matches and scrolls to the current one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._search: TranscriptSearch | None = None
        self._finder: TextFinder | None = None

    @property
    def is_search_active(self) -> bool:
        """Whether a search is active."""
        return self._search is not None

    @property
    def finder(self) -> "TextFinder":
        """Finds text in the blocks, and caches the blocks' text."""
        self._finder = self._finder or widgets.text_finder.TextFinder()
        return self._finder

    @property
    def is_ready_to_search(self) -> bool:
        """Whether a search can start without first reading text in a thread."""
        return len(self.finder.uncached_blocks([row.block for row in self._stack.rows])) <= MAX_BLOCKS_SEARCHED_AT_ONCE

    async def cache_texts(self) -> None:
        """Read the text of all blocks in a thread and cache it."""
        uncached_blocks = self.finder.uncached_blocks([row.block for row in self._stack.rows])
        self.finder.cache_texts(await asyncio.to_thread(widgets.text_finder.normalise_block_texts, uncached_blocks))

    def find(self, search_text: str) -> "SearchResult":
        """Highlight the matches and go to the last one that was on or above the screen when the search began."""
        if self._search is None:
            bottom, _ = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            origin = (self._is_following, self._stack.locate(self.scroll_offset.y))
            self._search = widgets.transcript_search.TranscriptSearch(self._stack, self.finder, bottom, origin)
        return self._go_to_match(self._search.search(search_text))

    def find_next(self, step: int) -> "SearchResult":
        """Go to the next match below (1) or above (-1), wrapping around."""
        return (
            self._go_to_match(self._search.move_to_match(step))
            if self._search is not None
            else widgets.transcript_search.SearchResult()
        )

    def end_search(self, *, goes_back: bool) -> None:
        """Remove the highlights. `goes_back`: whether to return to where the search began."""
        search, self._search = self._search, None
        if search is None:
            return
        if goes_back:
            search.collapse_expanded_row()
            self._is_following, self._top_position = search.origin
        self._place_rows()
        self.refresh()

    def _go_to_match(self, result: "SearchResult") -> "SearchResult":
        search, height = self._search, self.size.height
        if search is None or self._width <= 0:
            return result
        position = search.expand_current_match()
        if position is not None:
            index, line = position
            self._stack.measure(range(index, -1, -1), line + height)
            y, top = self._stack.start_line(index) + line, self.scroll_offset.y
            if top <= y < top + height:
                self._scroll_to_row(*self._stack.locate(top))
            else:
                self._scroll_to_row(*self._stack.locate(max(0, y - height // 3)))
        self.refresh()
        return result

    def _with_matches(self, strip: Strip, index: int, line: int) -> Strip:
        """Highlight the matches in a line of a row."""
        if self._search is None or self._palette is None:
            return strip
        for span, is_current in self._search.spans_in_line(index, line):
            style = self._palette.current_match if is_current else self._palette.search_match
            strip = with_style_on_range(strip, span.start, span.end, style)
        return strip
