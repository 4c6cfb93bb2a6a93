"""The transcript on the screen, drawn line by line. It knows blocks and heights, and nothing of sessions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from tui.blocks import AnswerText, Block, Call, Failure, Summary, Thought, UserText, opens
from tui.palette import Palette, palette_of
from tui.receipts import Compaction
from tui.rows import Row
from tui.sanitise import visible
from tui.widgets.selecting import SelectableRows, over, over_part

if TYPE_CHECKING:  # types only: loaded when there is something to draw, or words to look for
    from tui.search import Found, Search
_WALKED = (UserText, AnswerText, Call, Thought, Summary, Compaction, Failure)
"""Blocks that the mark stops at."""
_NEWS = (UserText, AnswerText, Call, Failure)
"""Blocks that count as something new."""


class Transcript(SelectableRows, can_focus=True):
    """All blocks of a session. Only what is visible is drawn, heights of everything else are estimates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "mark(-1)", show=False),
        Binding("down", "mark(1)", show=False),
        Binding("enter,space", "toggle_marked", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Left(Message):
        """The user is done with the transcript; `typed` is what said so, if something was written."""

        def __init__(self, typed: str = "") -> None:
            super().__init__()
            self.typed = typed

    class Unseen(Message):
        """Below what is on the screen is another number of blocks that came since its end was on the screen."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    class Copied(Message):
        """The user wants a block in the clipboard; None: the last answer."""

        def __init__(self, block: Block | None) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._following = True
        self._anchor = (0, 0)
        """The row at the top of the screen and how many of its lines are above it, when not following."""
        self._seen = self._unseen = 0
        """How many of the rows have been on the screen at one time or another, and how many news are behind them."""
        self._settling = False
        self._margins_due = False
        self._marked: Row | None = None
        self._search: Search | None = None
        self._base: Style | None = None
        """The widget's own style, which is costly to ask for line by line."""
        self.greeting = Text()
        """What is shown before the first block."""

    # What others ask of it

    def show(self, past: Sequence[Block], turn: Sequence[Block] = ()) -> None:
        """Shows these blocks. Blocks that are the same objects as before are not drawn again, and a `past` that is the
        same object is not even looked at."""
        self._stack.show(past, turn)
        if self._marked is not None and self._marked not in self._stack.rows:
            self._marked = None
        self._settle()
        self.refresh()

    def restart(self, blocks: Sequence[Block]) -> None:
        """Shows another session, from its end. Where that is shown already, what is on the screen stays."""
        rows, (index, offset) = self._stack.rows, self._anchor
        more = len(blocks) - len(rows)
        is_end = rows and more >= 0 and all(row.block == block for row, block in zip(rows, blocks[more:], strict=True))
        self._stack.clear()
        self._marked = self._search = None
        self._following, self._anchor = self._following or not is_end, (index + more, offset)
        self._seen += more
        self.show(blocks)

    def toggle_last(self) -> None:
        """Opens or closes the last tool call."""
        for index in range(len(self._stack.rows) - 1, -1, -1):
            if isinstance(self._stack.rows[index].block, Call):
                self._toggle(index)
                return

    def page(self, direction: int) -> None:
        """One screen up (-1) or down (1), less two lines to hold on to."""
        self._go_to(self.scroll_offset.y + direction * max(1, self.size.height - 2))

    def jump(self, direction: int) -> None:
        """To the message of the user before (-1) or after (1) what is at the top of the screen."""
        rows, top = self._stack.rows, self.scroll_offset.y
        here, _ = self._stack.locate(top)
        ahead = range(here, -1, -1) if direction < 0 else range(here, len(rows))
        for index in ahead:
            y = self._stack.start(index) + rows[index].gap
            if isinstance(rows[index].block, UserText) and (y < top if direction < 0 else y > top):
                self._hold(index, rows[index].gap)
                return
        if direction < 0:
            self.go_home()
        else:
            self.go_end()

    def go_home(self) -> None:
        self._go_to(0)

    def go_end(self) -> None:
        self._following = True
        self._settle()

    @property
    def following(self) -> bool:
        """New blocks move the transcript: its end is on the screen."""
        return self._following

    @property
    def opened(self) -> tuple[Block, ...]:
        return tuple(row.block for row in self._stack.rows if row.opened)

    @property
    def marked(self) -> Block | None:
        return self._marked.block if self._marked is not None else None

    def visible_text(self) -> str:
        """What is on the screen, as plain lines."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))

    # Looking for words

    @property
    def is_searched(self) -> bool:
        """Words are looked for, and marked where they are."""
        return self._search is not None

    def find(self, words: str) -> "Found":
        """Marks the words and goes to the last place above the end of what was on the screen when the search began."""
        from tui.search import Search  # noqa: PLC0415  # deferred: with the first search

        if self._search is None:
            bottom, _ = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            self._search = Search(self._stack, bottom, (self._following, self._stack.locate(self.scroll_offset.y)))
        return self._go_to_found(self._search.look_for(words))

    def find_next(self, step: int) -> "Found":
        """Goes to another place, further down (1) or up (-1), and around at the ends."""
        from tui.search import Found  # noqa: PLC0415  # deferred: with the first search

        return self._go_to_found(self._search.move(step)) if self._search is not None else Found()

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

    def _go_to_found(self, found: "Found") -> "Found":
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

    # Where rows stand

    @property
    def _width(self) -> int:
        return self._stack.width

    def _size_updated(self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True) -> bool:
        """Called while the screen is laid out. Rows are put in place at once: at the event of the new size, one picture
        would have been drawn already, with lines of the old width."""
        changed = super()._size_updated(size, virtual_size, container_size, layout)
        width = self.scrollable_content_region.width
        if width != self._width:
            self._stack.resize(width)
        if changed:
            self._settle()
        return changed

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling and round(old_value) != round(new_value):
            self._following = round(new_value) >= self.max_scroll_y
            self._anchor = self._stack.locate(round(new_value))
            self._settle()

    def _settle(self) -> None:
        """Draws the rows of this screen, and puts everything where the drawn heights say."""
        if self._width <= 0 or self._settling or (self._stack.rows and not self._has_inks()):
            return
        self._settling = True
        try:
            if self._following:
                self._stack.measure(range(len(self._stack.rows) - 1, -1, -1), self.size.height)
            else:
                index, offset = self._anchor
                self._stack.measure(range(index, len(self._stack.rows)), self.size.height + offset)
            self._place()
        finally:
            self._settling = False
        self._count_unseen()
        if not self._margins_due:
            self._margins_due = True
            self.call_after_refresh(self._settle_margins)

    def _count_unseen(self) -> None:
        rows = self._stack.rows
        if self._following or not rows:
            self._seen, unseen = len(rows), 0
        else:
            index, line = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            self._seen = max(min(self._seen, len(rows)), index + (line >= rows[index].gap))
            unseen = sum(isinstance(row.block, _NEWS) for row in rows[self._seen :])
        if unseen != self._unseen:
            self._unseen = unseen
            self.post_message(self.Unseen(unseen))

    def _settle_margins(self) -> None:
        """Draws one screen above and below, so that the next page does not move while it is read."""
        self._margins_due = False
        if self._width <= 0 or not self._stack.rows:
            return
        page = self.size.height
        top, _ = self._stack.locate(self.scroll_offset.y)
        bottom, _ = self._stack.locate(self.scroll_offset.y + page)
        self._settling = True
        try:
            changed = self._stack.measure(range(top, -1, -1), 2 * page)
            changed = self._stack.measure(range(bottom, len(self._stack.rows)), page) or changed
            if changed:
                self._place()
        finally:
            self._settling = False

    def _place(self) -> None:
        """Scrolls so that what is looked at stays where it is."""
        rows, size = self._stack.rows, Size(self._width, self._stack.height)
        if size != self.virtual_size:
            # Not by assignment: that lays out the whole screen anew, in which nothing else has moved.
            self.set_reactive(Transcript.virtual_size, size)
            self._scroll_update(size)
        if self._following:
            y = self.max_scroll_y
        else:
            index, offset = self._anchor
            index = max(0, min(index, len(rows) - 1))
            y = self._stack.start(index) + (min(offset, max(0, rows[index].height - 1)) if rows else 0)
        self._scroll_now(y)

    def _hold(self, index: int, offset: int) -> None:
        """Brings a line of a row to the top of the screen, or as far up as the end lets it."""
        self._anchor, self._following = (index, offset), False
        self._settle()
        self._following = self.scroll_offset.y >= self.max_scroll_y

    def _go_to(self, y: int) -> None:
        self._scroll_now(max(0, min(y, self.max_scroll_y)))

    def _scroll_now(self, y: int) -> None:
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    # How rows look

    def notify_style_update(self) -> None:
        """Called when a theme or a style has changed."""
        super().notify_style_update()
        self._base = None
        palette = palette_of(self.app.theme_variables)
        if palette != self._palette:
            self._palette = palette
            if self._stack.inks is not None:
                self._ink(palette)
            self.refresh()

    def _has_inks(self) -> bool:
        if self._stack.inks is None and self.is_attached:
            self._ink(self._palette or palette_of(self.app.theme_variables))
        return self._stack.inks is not None

    def _ink(self, palette: Palette) -> None:
        from tui.prose import PaletteConsole  # noqa: PLC0415  # deferred: with the first block

        self._stack.recolor(PaletteConsole(palette))

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, base = self.size.width, self._base or self.rich_style
        self._base = base
        if not self._stack.rows:
            return self._greeting_line(y, width, base)
        y += self.scroll_offset.y
        if y >= self._stack.height or y < 0 or not self._has_inks():
            return Strip.blank(width, base)
        index, line = self._stack.locate(y)
        row, strips = self._stack.rows[index], self._stack.draw(index)
        if line >= len(strips):
            return Strip.blank(width, base)
        strip = strips[line].crop_extend(0, width, base).apply_style(base)
        if self._palette is not None:
            if row is self._marked and line >= row.gap and self.has_focus:
                strip = over(strip, self._palette.marked)
            if self._search is not None:
                for span, is_here in self._search.spans_on(index, line):
                    ink = self._palette.here if is_here else self._palette.found
                    strip = over_part(strip, span.start, span.end, ink)
        return self._with_selection(strip, y).apply_offsets(0, y)

    def _greeting_line(self, y: int, width: int, base: Style) -> Strip:
        lines = self.greeting.split("\n")
        y -= max(0, self.size.height - len(lines) - 1)
        if not 0 <= y < len(lines):
            return Strip.blank(width, base)
        line = lines[y]
        line.truncate(max(1, width))
        return Strip(line.render(self.app.console)).crop_extend(0, width, base).apply_style(base)

    # Opening and closing

    def on_click(self, event: events.Click) -> None:
        if not self._stack.rows or self.text_selection is not None:
            return
        index, line = self._stack.locate(event.y + self.scroll_offset.y)
        row = self._stack.rows[index]
        if line == row.gap and opens(row.block):
            self._toggle(index)

    def action_mark(self, step: int) -> None:
        """Moves the mark to the next block, and brings it onto the screen. It begins at one that opens."""
        rows = self._stack.rows
        walked = [index for index, row in enumerate(rows) if isinstance(row.block, _WALKED)]
        if not walked:
            self._go_to(self.scroll_offset.y + step)
            return
        here = next((place for place, index in enumerate(walked) if rows[index] is self._marked), None)
        if here is None:
            foldable = [index for index in walked if opens(rows[index].block)] or walked
            index = foldable[min(step, 0)]
        else:
            index = walked[max(0, min(here + step, len(walked) - 1))]
        self._marked = rows[index]
        top = self._stack.start(index)
        if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height:
            self._go_to(top - self.size.height // 3)
        self.refresh()

    def action_toggle_marked(self) -> None:
        if self._marked is not None and opens(self._marked.block):
            self._toggle(self._stack.rows.index(self._marked))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_key(self, event: events.Key) -> None:
        if self._search is not None and event.character in ("n", "N"):
            return  # whoever began the search goes on with it
        if event.key == "u" and isinstance(self.marked, Compaction):
            event.stop()
            self.call_later(self.run_action, "app.command('undo')")
        elif event.character == "Y" or (event.character == "y" and self._marked is not None):
            event.stop()
            self.post_message(self.Copied(self.marked if event.character == "y" else None))
        elif event.is_printable and event.character and event.key != "space":
            event.stop()
            self.post_message(self.Left(event.character))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(self.Left(visible(event.text)))

    def on_focus(self) -> None:
        if self._marked is None:
            self.action_mark(-1)

    def _toggle(self, index: int) -> None:
        """Opens or closes a row. What is above it stays where it is, as far as the row is then on the screen."""
        row = self._stack.rows[index]
        row.toggle()
        self._hold(*self._stack.locate(self.scroll_offset.y))
        self._stack.measure((index,), 1)
        start, top = self._stack.start(index), self.scroll_offset.y
        if row.opened and not top <= start <= start + row.height <= top + self.size.height:
            lowest = max(0, start + row.height - self.size.height)
            self._hold(*self._stack.locate(min(lowest, start + row.gap)))
        self.refresh()
