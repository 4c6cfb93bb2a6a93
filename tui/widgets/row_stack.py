"""The transcript's rows and their positions."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tools.tool_traits import role_of
from ebbtide.tui.view.block_groups import group_blocks
from ebbtide.tui.view.blocks import Block, Call, DetailLevel, ReasoningBlock, is_expandable
from ebbtide.tui.widgets.row import BlockRow

if TYPE_CHECKING:  # the renderer loads when there is something to draw
    from ebbtide.agent.config.options import ThoughtsDisplay
    from ebbtide.tui.render.themed_markdown import PaletteConsole

_MIN_CACHED_ROWS, _CACHED_SCREENS = 50, 3
"""The lines of the rows that were drawn last are cached: as many rows as these screens have lines, and at least the
first number. Drawn lines take a hundred times the memory of their text. Other rows are redrawn on demand."""


class RowStack:
    """The rows of a transcript. Each is drawn on demand, and its height is an estimate until then."""

    def __init__(self) -> None:
        self.rows: list[BlockRow] = []
        self.width = 0
        self.detail: DetailLevel = "normal"
        self.thoughts: ThoughtsDisplay = "line"
        self.are_todos_in_panel = False
        """Whether the to-do list is in the side panel."""
        self.console: PaletteConsole | None = None
        self._past_blocks: Sequence[Block] = ()
        self._start_lines = [0]
        """Start lines of the first rows. The others are computed when needed."""
        self._cached_rows: OrderedDict[int, BlockRow] = OrderedDict()

    def set_blocks(self, past_blocks: Sequence[Block], turn_blocks: Sequence[Block]) -> None:
        """Set the blocks. Unchanged blocks, which are the same objects as before, are skipped. If `past_blocks` is the
        same tuple as before, all of it is skipped."""
        rows, first_index = self.rows, len(past_blocks) if past_blocks is self._past_blocks else 0
        blocks = turn_blocks if first_index else (*past_blocks, *turn_blocks)
        self._past_blocks = past_blocks
        row_count = first_index + len(blocks)
        del rows[row_count:], self._start_lines[row_count + 1 :]
        block_above = rows[first_index - 1].block if first_index else None
        for index, block in enumerate(blocks, first_index):
            if index >= len(rows):
                rows.append(
                    BlockRow(
                        block,
                        block_above,
                        self.width,
                        self.detail,
                        self.thoughts,
                        are_todos_in_panel=self.are_todos_in_panel,
                    )
                )
            elif rows[index].block is not block:
                rows[index].replace_block(block, block_above)
            block_above = block
        self._group_rows(first_index)

    def regroup(self) -> None:
        """Group collapsed blocks again. Expanded ones are drawn on their own."""
        self._group_rows(0)

    def ungroup(self, index: int) -> None:
        """Draw each call of a group on its own."""
        for row in self.rows[index:]:
            if row is not self.rows[index] and row.displayed_block is not None:
                break
            row.is_ungrouped = True
        self.regroup()

    def _group_rows(self, first_index: int) -> None:
        rows = self.rows[first_index:]
        first_changed_index = None
        is_separate = [row.is_expanded or row.is_ungrouped for row in rows]
        displayed_blocks = (
            group_blocks([row.block for row in rows], is_separate.__getitem__) if self.detail != "full" else []
        )
        hides_reasoning = self.thoughts == "hidden" and self.detail != "full"
        for index, row in enumerate(rows):
            block = (
                None
                if hides_reasoning and isinstance(row.block, ReasoningBlock)
                else displayed_blocks[index]
                if displayed_blocks
                else row.block
            )
            if row.set_displayed_block(block, self.width) and first_changed_index is None:
                first_changed_index = first_index + index
        block_above = next(
            (
                self.rows[row_index].displayed_block
                for row_index in range(first_index - 1, -1, -1)
                if self.rows[row_index].displayed_block
            ),
            None,
        )
        for index, row in enumerate(rows):
            if row.update_gap(block_above) and (
                first_changed_index is None or first_index + index < first_changed_index
            ):
                first_changed_index = first_index + index
            block_above = row.displayed_block or block_above
        if first_changed_index is not None:
            del self._start_lines[first_changed_index + 1 :]

    def prepend_blocks(self, past_blocks: Sequence[Block], turn_blocks: Sequence[Block], count: int) -> None:
        """Add `count` earlier blocks at the start, and replace the first row. The other rows keep their lines and
        state."""
        remaining_rows = self.rows[1:]
        self._past_blocks, self._start_lines = (), [0]
        self.rows.clear()
        self.set_blocks(past_blocks[: count + 1], ())
        if remaining_rows and self.rows:
            remaining_rows[0].replace_block(
                remaining_rows[0].block, self.rows[-1].block
            )  # the block above it has changed
        self.rows += remaining_rows
        self._past_blocks, self._start_lines = (), [0]
        self.set_blocks(past_blocks, turn_blocks)

    def replace_blocks(self, blocks: Sequence[Block], unchanged_count: int) -> None:
        """Replace the blocks. The last `unchanged_count` blocks are equal to the current ones, so their drawn lines are
        kept."""
        if not unchanged_count:
            self.clear()
            self.set_blocks(blocks, ())
            return
        rows, new_count = list(self.rows), len(blocks) - unchanged_count
        self._past_blocks, self._start_lines = (), [0]
        self.rows.clear()
        self.set_blocks(blocks[:new_count], ())
        for row, block in zip(rows, blocks[new_count:], strict=True):
            row.block = block
        if new_count:
            rows[0].replace_block(rows[0].block, self.rows[-1].block)  # the block above it has changed
        self.rows += rows
        self._past_blocks, self._start_lines = (), [0]
        self.set_blocks(blocks, ())

    def clear(self) -> None:
        self.rows.clear()
        self._cached_rows.clear()
        self._past_blocks, self._start_lines = (), [0]

    def resize(self, width: int) -> None:
        """Discard all cached lines because the width has changed."""
        self.width = width
        for row in self.rows:
            row.reset_width(width)
        self._start_lines = [0]

    def set_detail(self, detail: DetailLevel, thoughts: "ThoughtsDisplay") -> None:
        """Set the detail level of blocks and of reasoning. At full detail, reasoning is expanded too."""
        self.detail, self.thoughts = detail, thoughts
        for row in self.rows:
            row.set_detail(detail, thoughts)
        self._group_rows(0)
        self._start_lines = [0]

    def set_todos_in_panel(self, are_todos_in_panel: bool) -> None:
        """Set whether the to-do list is in the side panel."""
        self.are_todos_in_panel = are_todos_in_panel
        for row in self.rows:
            if (
                row.are_todos_in_panel != are_todos_in_panel
                and isinstance(row.block, Call)
                and role_of(row.block.name) == "list_todos"
            ):
                row.strips, row.is_measured = None, False
            row.are_todos_in_panel = are_todos_in_panel
        self._start_lines = [0]

    def set_console(self, console: "PaletteConsole") -> None:
        """Discard all cached lines because the colours or the screen height have changed."""
        self.console = console
        for row in self.rows:
            row.discard_lines()

    def draw(self, index: int) -> list[Strip]:
        """Draw a row and return its lines. Its height is known from then on."""
        assert self.console is not None, "rows are drawn once there are colours"
        row = self.rows[index]
        previous_height = row.height
        strips = row.draw(self.width, self.console)
        if row.height != previous_height:
            del self._start_lines[index + 1 :]
        self._cached_rows[id(row)] = row
        self._cached_rows.move_to_end(id(row))
        while len(self._cached_rows) > max(_MIN_CACHED_ROWS, _CACHED_SCREENS * self.console.height):
            _, evicted_row = self._cached_rows.popitem(last=False)
            evicted_row.strips = None
        return strips

    def drawn_strips(self, y: int, count: int) -> list[Strip | None]:
        """The strips of `count` lines from a line on. None where there is no row, or its lines are not cached."""
        strips: list[Strip | None] = []
        index, first_line = self.locate(y)
        while len(strips) < count and index < len(self.rows):
            row = self.rows[index]
            strips += row.strips[first_line:] if row.strips is not None else [None] * (row.height - first_line)
            index, first_line = index + 1, 0
        return [*strips[:count], *[None] * (count - len(strips))]

    def measure(self, row_indexes: Iterable[int], needed_lines: int) -> bool:
        """Draw unmeasured rows, in this order, until the rows fill `needed_lines` lines. Returns whether any height
        changed."""
        has_changed = False
        for index in row_indexes:
            if needed_lines <= 0:
                break
            row = self.rows[index]
            previous_height = row.height
            if not row.is_measured:
                self.draw(index)
                has_changed = has_changed or row.height != previous_height
            needed_lines -= row.height
        return has_changed

    def next_markable(self, marked_row: BlockRow | None, step: int) -> int | None:
        """Find the next or previous row to mark. If no row is marked yet, find one that can be expanded. None if there
        is no row to mark."""
        markable = [index for index, row in enumerate(self.rows) if row.is_markable]
        if not markable:
            return None
        position = next((place for place, index in enumerate(markable) if self.rows[index] is marked_row), None)
        if position is not None:
            return markable[max(0, min(position + step, len(markable) - 1))]
        expandable = [index for index in markable if is_expandable(self.rows[index].block)] or markable
        return expandable[min(step, 0)]

    @property
    def height(self) -> int:
        """Total height of all rows in lines."""
        return self._compute_start_lines()[-1]

    def start_line(self, index: int) -> int:
        """Get the line at which a row starts."""
        return self._compute_start_lines()[index]

    def locate(self, y: int) -> tuple[int, int]:
        """Find the row at a line. Returns its index, and which line of the row it is."""
        if not self.rows:
            return 0, 0
        starts = self._compute_start_lines()
        index = min(max(0, bisect_right(starts, y) - 1), len(self.rows) - 1)
        return index, max(0, y - starts[index])

    def _compute_start_lines(self) -> list[int]:
        computed_count = len(self._start_lines) - 1
        if computed_count < len(self.rows):
            last_start = self._start_lines.pop()
            self._start_lines += accumulate((row.height for row in self.rows[computed_count:]), initial=last_start)
        return self._start_lines
