"""The rows of the transcript and their positions."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tui.view.block_groups import grouped_blocks
from ebbtide.tui.view.blocks import Block, Call, Detail, ReasoningBlock
from ebbtide.tui.widgets.row import BlockRow

if TYPE_CHECKING:  # types only: what draws is loaded when there is something to draw
    from ebbtide.agent.config.options import ThoughtsName
    from ebbtide.tui.render.prose import PaletteConsole

_MAX_CACHED_ROWS = 400
"""Maximum rows with cached lines; others are drawn again on demand."""


class RowStack:
    """The rows of a transcript. Rows are drawn on demand; other heights are estimates."""

    def __init__(self) -> None:
        self.rows: list[BlockRow] = []
        self.width = 0
        self.detail: Detail = "normal"
        self.thoughts: ThoughtsName = "line"
        self.is_beside = False
        """Whether the to-do list is in the side panel."""
        self.inks: PaletteConsole | None = None
        self._past: Sequence[Block] = ()
        self._starts = [0]
        """Known start lines of rows, and of the next one."""
        self._kept: OrderedDict[int, BlockRow] = OrderedDict()

    def show(self, past: Sequence[Block], turn: Sequence[Block]) -> None:
        """Set the blocks. A `past` that is the same object as before is skipped, and blocks that are the same
        objects are not redrawn."""
        rows, first = self.rows, len(past) if past is self._past else 0
        blocks = turn if first else (*past, *turn)
        self._past = past
        count = first + len(blocks)
        del rows[count:], self._starts[count + 1 :]
        above = rows[first - 1].block if first else None
        for index, block in enumerate(blocks, first):
            if index >= len(rows):
                rows.append(BlockRow(block, above, self.width, self.detail, self.thoughts, is_beside=self.is_beside))
            elif rows[index].block is not block:
                rows[index].change(block, above)
            above = block
        self._fold(first)

    def refold(self) -> None:
        """Draw opened blocks alone, and group closed ones again."""
        self._fold(0)

    def unfold(self, index: int) -> None:
        """Draw each call of a group alone."""
        for row in self.rows[index:]:
            if row is not self.rows[index] and row.drawn is not None:
                break
            row.unfolded = True
        self.refold()

    def _fold(self, first: int) -> None:
        rows, changed = self.rows[first:], None
        alone = [row.opened or row.unfolded for row in rows]
        drawn = grouped_blocks([row.block for row in rows], alone.__getitem__) if self.detail != "full" else []
        hides = self.thoughts == "hidden" and self.detail != "full"
        for index, row in enumerate(rows):
            shown = None if hides and isinstance(row.block, ReasoningBlock) else drawn[index] if drawn else row.block
            if row.draw_as(shown, self.width) and changed is None:
                changed = first + index
        above = next((self.rows[at].drawn for at in range(first - 1, -1, -1) if self.rows[at].drawn), None)
        for index, row in enumerate(rows):
            if row.update_gap(above) and (changed is None or first + index < changed):
                changed = first + index
            above = row.drawn or above
        if changed is not None:
            del self._starts[changed + 1 :]

    def begin_earlier(self, past: Sequence[Block], turn: Sequence[Block], more: int) -> None:
        """Prepend earlier blocks: `more` of them and one replace the first row. Other rows keep their drawing and
        state."""
        kept = self.rows[1:]
        self._past, self._starts = (), [0]
        self.rows.clear()
        self.show(past[: more + 1], ())
        if kept and self.rows:
            kept[0].change(kept[0].block, self.rows[-1].block)  # another block is above it
        self.rows += kept
        self._past, self._starts = (), [0]
        self.show(past, turn)

    def restart(self, blocks: Sequence[Block], kept: int) -> None:
        """Set the blocks, of which the last `kept` equal the current ones and keep their drawing."""
        if not kept:
            self.clear()
            self.show(blocks, ())
            return
        rows, more = list(self.rows), len(blocks) - kept
        self._past, self._starts = (), [0]
        self.rows.clear()
        self.show(blocks[:more], ())
        for row, block in zip(rows, blocks[more:], strict=True):
            row.block = block
        if more:
            rows[0].change(rows[0].block, self.rows[-1].block)  # another block is above it
        self.rows += rows
        self._past, self._starts = (), [0]
        self.show(blocks, ())

    def clear(self) -> None:
        self.rows.clear()
        self._kept.clear()
        self._past, self._starts = (), [0]

    def resize(self, width: int) -> None:
        """Drop all cached lines: the width changed."""
        self.width = width
        for row in self.rows:
            row.resize(width)
        self._starts = [0]

    def show_in(self, detail: Detail, thoughts: "ThoughtsName") -> None:
        """Set the detail level of blocks and of reasoning; full detail includes reasoning."""
        self.detail, self.thoughts = detail, thoughts
        for row in self.rows:
            row.show_in(detail, thoughts)
        self._fold(0)
        self._starts = [0]

    def set_todos_beside(self, is_beside: bool) -> None:
        """Set whether the to-do list is in the side panel."""
        self.is_beside = is_beside
        for row in self.rows:
            if row.is_beside != is_beside and isinstance(row.block, Call) and row.block.name == "todo":
                row.strips, row.measured = None, False
            row.is_beside = is_beside
        self._starts = [0]

    def recolor(self, inks: "PaletteConsole") -> None:
        """Drop all cached lines: colours or screen height changed."""
        self.inks = inks
        for row in self.rows:
            row.recolor()

    def draw(self, index: int) -> list[Strip]:
        """Draw a row; its height is then known."""
        assert self.inks is not None, "rows are drawn once there are colours"
        row = self.rows[index]
        before = row.height
        strips = row.draw(self.width, self.inks)
        if row.height != before:
            del self._starts[index + 1 :]
        self._kept[id(row)] = row
        self._kept.move_to_end(id(row))
        while len(self._kept) > _MAX_CACHED_ROWS:
            _, forgotten = self._kept.popitem(last=False)
            forgotten.strips = None
        return strips

    def measure(self, indices: Iterable[int], wanted: int) -> bool:
        """Draw rows until they fill `wanted` lines; return whether a height changed."""
        changed = False
        for index in indices:
            if wanted <= 0:
                break
            row = self.rows[index]
            before = row.height
            if not row.measured:
                self.draw(index)
                changed = changed or row.height != before
            wanted -= row.height
        return changed

    @property
    def height(self) -> int:
        """Height of all rows."""
        return self._worked_out()[-1]

    def start(self, index: int) -> int:
        """The line at which a row starts."""
        return self._worked_out()[index]

    def locate(self, y: int) -> tuple[int, int]:
        """The row at a line, and the line's index in it."""
        if not self.rows:
            return 0, 0
        starts = self._worked_out()
        index = min(max(0, bisect_right(starts, y) - 1), len(self.rows) - 1)
        return index, max(0, y - starts[index])

    def _worked_out(self) -> list[int]:
        known = len(self._starts) - 1
        if known < len(self.rows):
            last = self._starts.pop()
            self._starts += accumulate((row.height for row in self.rows[known:]), initial=last)
        return self._starts
