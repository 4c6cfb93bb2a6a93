"""Rows in which words are looked for."""

import asyncio
from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tui.widgets.scrolled import ScrolledRows
from ebbtide.tui.widgets.selection import over_part

if TYPE_CHECKING:  # types only: loaded when there are words to look for
    from ebbtide.tui.widgets.find_text import TextFinder
    from ebbtide.tui.widgets.transcript_search import FoundWords, TranscriptSearch

AT_ONCE = 300
"""Blocks that are looked through without reading them ahead."""


class SearchedRows(ScrolledRows):
    """Where words are found they are marked, and one of these places is gone to."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._search: TranscriptSearch | None = None
        self._finder: TextFinder | None = None

    @property
    def is_searched(self) -> bool:
        """Words are looked for, and marked where they are."""
        return self._search is not None

    @property
    def finder(self) -> "TextFinder":
        """What knows what the blocks say."""
        from ebbtide.tui.widgets.find_text import TextFinder  # noqa: PLC0415  # deferred: with the first search

        self._finder = self._finder or TextFinder()
        return self._finder

    @property
    def is_read(self) -> bool:
        """Whether words can be looked for at once."""
        return len(self.finder.unread([row.block for row in self._stack.rows])) <= AT_ONCE

    async def read_texts(self) -> None:
        """Finds out what all blocks say, in a thread."""
        from ebbtide.tui.widgets.find_text import texts_of  # noqa: PLC0415  # deferred: with the first search

        unread = self.finder.unread([row.block for row in self._stack.rows])
        self.finder.learn(await asyncio.to_thread(texts_of, unread))

    def find(self, words: str) -> "FoundWords":
        """Marks the words and goes to the last place above the end of what was on the screen when the search began."""
        from ebbtide.tui.widgets.transcript_search import TranscriptSearch  # noqa: PLC0415  # deferred: with the first search

        if self._search is None:
            bottom, _ = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            origin = (self._following, self._stack.locate(self.scroll_offset.y))
            self._search = TranscriptSearch(self._stack, self.finder, bottom, origin)
        return self._go_to_found(self._search.look_for(words))

    def find_next(self, step: int) -> "FoundWords":
        """Goes to another place, further down (1) or up (-1), and around at the ends."""
        from ebbtide.tui.widgets.transcript_search import FoundWords  # noqa: PLC0415  # deferred: with the first search

        return self._go_to_found(self._search.move(step)) if self._search is not None else FoundWords()

    def end_search(self, *, back: bool) -> None:
        """Marks nothing any more, and goes back to where the search began if that is wanted."""
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
        """A line of a row, with the words marked that are looked for."""
        if self._search is None or self._palette is None:
            return strip
        for span, is_here in self._search.spans_on(index, line):
            ink = self._palette.here if is_here else self._palette.found
            strip = over_part(strip, span.start, span.end, ink)
        return strip
