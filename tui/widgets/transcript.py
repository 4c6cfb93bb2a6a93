"""The transcript on the screen, drawn line by line. It knows blocks and heights, and nothing of sessions."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tui.paint import opens
from tui.palette import Palette, palette_of
from tui.prose import PaletteConsole
from tui.rows import Row
from tui.transcript import Block, Call

_KEPT = 400
"""Rows whose lines are kept; the others are drawn again when they are looked at."""


class Transcript(ScrollView, can_focus=True):
    """All blocks of a session. Only what is visible is drawn, heights of everything else are estimates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "mark(-1)", show=False),
        Binding("down", "mark(1)", show=False),
        Binding("enter,space", "toggle_marked", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Left(Message):
        """The user is done with the transcript; `typed` is the character that said so, if it was one."""

        def __init__(self, typed: str = "") -> None:
            super().__init__()
            self.typed = typed

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._starts: list[int] = [0]
        self._width = 0
        self._following = True
        self._anchor = (0, 0)
        """The row at the top of the screen and how many of its lines are above it, when not following."""
        self._settling = False
        self._margins_due = False
        self._marked: Row | None = None
        self._kept: OrderedDict[int, Row] = OrderedDict()
        self._palette: Palette | None = None
        self._base: Style | None = None
        """The widget's own style, which is costly to ask for line by line."""
        self._inks: PaletteConsole | None = None
        self.greeting = Text()
        """What is shown before the first block."""

    # What others ask of it

    def show(self, blocks: Sequence[Block]) -> None:
        """Shows these blocks. Blocks that are the same objects as before are not drawn again."""
        rows = self._rows
        if self._marked in rows[len(blocks) :]:
            self._marked = None
        del rows[len(blocks) :]
        above: Block | None = None
        for index, block in enumerate(blocks):
            if index >= len(rows):
                rows.append(Row(block, above, self._width))
            elif rows[index].block is not block:
                rows[index].change(block, above)
            above = block
        self._settle()
        self.refresh()

    def restart(self, blocks: Sequence[Block]) -> None:
        """Shows another session, from its end."""
        self._rows.clear()
        self._kept.clear()
        self._marked = None
        self._following = True
        self.show(blocks)

    def toggle_last(self) -> None:
        """Opens or closes the last tool call."""
        for row in reversed(self._rows):
            if isinstance(row.block, Call):
                self._toggle(row)
                return

    def page(self, direction: int) -> None:
        """One screen up (-1) or down (1), less two lines to hold on to."""
        self._go_to(self.scroll_offset.y + direction * max(1, self.size.height - 2))

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
        return tuple(row.block for row in self._rows if row.opened)

    @property
    def marked(self) -> Block | None:
        return self._marked.block if self._marked is not None else None

    def visible_text(self) -> str:
        """What is on the screen, as plain lines."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))

    # Where rows stand

    def on_resize(self) -> None:
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width = width
            for row in self._rows:
                row.resize(width)
        self._settle()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._settling and round(old_value) != round(new_value):
            self._following = round(new_value) >= self.max_scroll_y
            self._anchor = self._locate(round(new_value))
            self._settle()

    def _settle(self) -> None:
        """Draws the rows of this screen, and puts everything where the drawn heights say."""
        if self._width <= 0 or self._settling:
            return
        self._settling = True
        try:
            if self._following:
                self._measure(range(len(self._rows) - 1, -1, -1), self.size.height)
            else:
                index, offset = self._anchor
                self._measure(range(index, len(self._rows)), self.size.height + offset)
            self._place()
        finally:
            self._settling = False
        if not self._margins_due:
            self._margins_due = True
            self.call_after_refresh(self._settle_margins)

    def _settle_margins(self) -> None:
        """Draws one screen above and below, so that the next page does not move while it is read."""
        self._margins_due = False
        if self._width <= 0 or not self._rows:
            return
        top, _ = self._locate(self.scroll_offset.y)
        bottom, _ = self._locate(self.scroll_offset.y + self.size.height)
        self._settling = True
        try:
            page = self.size.height
            changed = self._measure(range(top, -1, -1), 2 * page)
            changed = self._measure(range(bottom, len(self._rows)), page) or changed
            if changed:
                self._place()
                self.refresh()
        finally:
            self._settling = False

    def _measure(self, indices: range, wanted: int) -> bool:
        """Draws rows until they fill the wanted lines. Tells whether a height turned out to be another."""
        changed = False
        for index in indices:
            if wanted <= 0:
                break
            row = self._rows[index]
            before = row.height
            if not row.measured:
                self._draw(row)
                changed = changed or row.height != before
            wanted -= row.height
        return changed

    def _place(self) -> None:
        heights = [row.height for row in self._rows]
        self._starts = [0, *accumulate(heights)]
        size = Size(self._width, self._starts[-1])
        if size != self.virtual_size:
            self.virtual_size = size
        if self._following:
            y = self.max_scroll_y
        else:
            index, offset = self._anchor
            index = max(0, min(index, len(self._rows) - 1))
            y = self._starts[index] + (min(offset, max(0, self._rows[index].height - 1)) if self._rows else 0)
        self.scroll_to(y=y, animate=False, force=True, immediate=True)

    def _locate(self, y: int) -> tuple[int, int]:
        """The row at a line of the whole transcript, and which of its lines that is."""
        if not self._rows:
            return 0, 0
        index = min(max(0, bisect_right(self._starts, y) - 1), len(self._rows) - 1)
        return index, max(0, y - self._starts[index])

    def _go_to(self, y: int) -> None:
        self.scroll_to(y=max(0, min(y, self.max_scroll_y)), animate=False, force=True, immediate=True)

    # How rows look

    def notify_style_update(self) -> None:
        """Called when a theme or a style has changed."""
        super().notify_style_update()
        self._base = None
        palette = palette_of(self.app.theme_variables)
        if palette != self._palette:
            self._palette = palette
            self._inks = PaletteConsole(palette)
            for row in self._rows:
                row.recolor()
            self.refresh()

    def _draw(self, row: Row) -> list[Strip]:
        if self._inks is None:
            self.notify_style_update()
        assert self._inks is not None
        strips = row.draw(self._width, self._inks)
        self._kept[id(row)] = row
        self._kept.move_to_end(id(row))
        while len(self._kept) > _KEPT:
            _, forgotten = self._kept.popitem(last=False)
            forgotten.strips = None
        return strips

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, base = self.size.width, self._base or self.rich_style
        self._base = base
        if not self._rows:
            return self._greeting_line(y, width, base)
        y += self.scroll_offset.y
        index, line = self._locate(y)
        if y >= self._starts[-1] or y < 0:
            return Strip.blank(width, base)
        row = self._rows[index]
        strips = self._draw(row)
        if line >= len(strips):
            return Strip.blank(width, base)
        strip = strips[line].crop_extend(0, width, base).apply_style(base)
        if row is self._marked and line >= row.gap and self.has_focus and self._palette is not None:
            strip = _over(strip, self._palette.marked)
        return self._with_selection(strip, y).apply_offsets(0, y)

    def _greeting_line(self, y: int, width: int, base: Style) -> Strip:
        lines = self.greeting.split("\n")
        y -= max(0, self.size.height - len(lines) - 1)
        if not 0 <= y < len(lines):
            return Strip.blank(width, base)
        line = lines[y]
        line.truncate(max(1, width))
        return Strip(line.render(self.app.console)).crop_extend(0, width, base).apply_style(base)

    # Selecting

    @property
    def allow_select(self) -> bool:
        return True

    def _with_selection(self, strip: Strip, y: int) -> Strip:
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None or self._palette is None:
            return strip
        text = strip.text
        first, last = span[0], len(text.rstrip()) if span[1] == -1 else span[1]
        left, right = cell_len(text[:first]), cell_len(text[:last])
        if left >= right:
            return strip
        parts = strip.divide([left, right, strip.cell_length])
        return Strip.join([parts[0], _over(parts[1], self._palette.selected), *parts[2:]])

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it stands on the screen."""
        if not self._rows:
            return None
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._starts[-1] - 1
        lines = [self._plain(y) for y in range(first, last + 1)]
        if selection.end is not None and lines:
            lines[-1] = lines[-1][: selection.end.x]
        if selection.start is not None and lines:
            lines[0] = lines[0][selection.start.x :]
        return "\n".join(line.rstrip() for line in lines), "\n"

    def _plain(self, y: int) -> str:
        index, line = self._locate(y)
        strips = self._draw(self._rows[index])
        return strips[line].text if line < len(strips) else ""

    # Opening and closing

    def on_click(self, event: events.Click) -> None:
        if not self._rows or self.text_selection is not None:
            return
        index, line = self._locate(event.y + self.scroll_offset.y)
        row = self._rows[index]
        if line == row.gap and opens(row.block):
            self._toggle(row)

    def action_mark(self, step: int) -> None:
        """Moves the mark to the next block that opens, and brings it onto the screen."""
        foldable = [index for index, row in enumerate(self._rows) if opens(row.block)]
        if not foldable:
            self._go_to(self.scroll_offset.y + step)
            return
        here = next((place for place, index in enumerate(foldable) if self._rows[index] is self._marked), None)
        place = here + step if here is not None else min(step, 0)
        index = foldable[place if here is None else max(0, min(place, len(foldable) - 1))]
        self._marked = self._rows[index]
        top = self._starts[index]
        if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height:
            self._go_to(top - self.size.height // 3)
        self.refresh()

    def action_toggle_marked(self) -> None:
        if self._marked is not None:
            self._toggle(self._marked)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character and event.key != "space":
            event.stop()
            self.post_message(self.Left(event.character))

    def on_focus(self) -> None:
        if self._marked is None:
            self.action_mark(-1)

    def _toggle(self, row: Row) -> None:
        """Opens or closes a row; what is above it stays where it is."""
        self._following = False
        self._anchor = self._locate(self.scroll_offset.y)
        row.toggle()
        self._settle()
        self._following = self.scroll_offset.y >= self.max_scroll_y
        self.refresh()


def _over(strip: Strip, style: Style) -> Strip:
    return Strip(Segment.apply_style(strip, post_style=style), strip.cell_length)
