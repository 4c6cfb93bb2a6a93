"""Rows with text search."""

import asyncio
from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tui.widgets.scrolled import ScrolledRows
from ebbtide.tui.widgets.selection import over_part

if TYPE_CHECKING:  # types only: loaded when there are words to look for
    from ebbtide.tui.widgets.find_text import TextFinder
    from ebbtide.tui.widgets.transcript_search import FoundWords, TranscriptSearch

AT_ONCE = 300
"""Maximum blocks searched without reading them in a thread first."""


class SearchedRows(ScrolledRows):
    """Highlights matches and scrolls to one of them."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._search: TranscriptSearch | None = None
        self._finder: TextFinder | None = None

    @property
    def is_searched(self) -> bool:
        """Whether a search is active."""
        return self._search is not None

    @property
    def finder(self) -> "TextFinder":
        """The text cache of the search."""
        from ebbtide.tui.widgets.find_text import TextFinder  # noqa: PLC0415  # deferred: with the first search

        self._finder = self._finder or TextFinder()
        return self._finder

    @property
    def is_read(self) -> bool:
        """Whether a search can start at once."""
        return len(self.finder.unread([row.block for row in self._stack.rows])) <= AT_ONCE

    async def read_texts(self) -> None:
        """Read the text of all blocks in a thread."""
        from ebbtide.tui.widgets.find_text import texts_of  # noqa: PLC0415  # deferred: with the first search

        unread = self.finder.unread([row.block for row in self._stack.rows])
        self.finder.learn(await asyncio.to_thread(texts_of, unread))

    def find(self, words: str) -> "FoundWords":
        """Highlight matches, and go to the last one above the end of the screen at the start of the search."""
        from ebbtide.tui.widgets.transcript_search import TranscriptSearch  # noqa: PLC0415  # deferred: with the first search

        if self._search is None:
            bottom, _ = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            origin = (self._following, self._stack.locate(self.scroll_offset.y))
            self._search = TranscriptSearch(self._stack, self.finder, bottom, origin)
        return self._go_to_found(self._search.look_for(words))

    def find_next(self, step: int) -> "FoundWords":
        """Go to the next match, down (1) or up (-1), wrapping around."""
        from ebbtide.tui.widgets.transcript_search import FoundWords  # noqa: PLC0415  # deferred: with the first search

        return self._go_to_found(self._search.move(step)) if self._search is not None else FoundWords()

    def end_search(self, *, back: bool) -> None:
        """Remove highlights, and return to the position before the search if `back`."""
        search, self._search = self._search, None
        if search is None:
            return
        if back:
            search.fold()
            self._following, self._anchor = search.origin
        self._settle()
        self.refresh()

    def _go_to_found(self, found: "FoundWords") -> "FoundWords":
        search, height = self._search, self.size.height
        if search is None or self._width <= 0:
            return found
        place = search.unfold()
        if place is not None:
            index, line = place
            self._stack.measure(range(index, -1, -1), line + height)
            y, top = self._stack.start(index) + line, self.scroll_offset.y
            if top <= y < top + height:
                self._hold(*self._stack.locate(top))
            else:
                self._hold(*self._stack.locate(max(0, y - height // 3)))
        self.refresh()
        return found

    def _with_found(self, strip: Strip, index: int, line: int) -> Strip:
        """The line of a row with matches highlighted."""
        if self._search is None or self._palette is None:
            return strip
        for span, is_here in self._search.spans_on(index, line):
            ink = self._palette.here if is_here else self._palette.found
            strip = over_part(strip, span.start, span.end, ink)
        return strip
