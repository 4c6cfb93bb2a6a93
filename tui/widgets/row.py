"""A transcript block and its drawn lines."""

from typing import TYPE_CHECKING

from textual.strip import Strip

from ebbtide.tools.tool_traits import role_of
from ebbtide.tui import render
from ebbtide.tui.view.block_groups import DisplayedBlock, LookupGroup
from ebbtide.tui.view.blocks import (
    MARGIN,
    AnswerText,
    Block,
    Call,
    DetailLevel,
    ReasoningBlock,
    UserText,
    has_collapsed_details,
    is_expandable,
    is_markable,
)
from ebbtide.tui.widgets.growing_strips import GrowingStrips

if TYPE_CHECKING:  # the renderer loads when there is something to draw
    from ebbtide.agent.config.options import ThoughtsDisplay
    from ebbtide.tui.render.themed_markdown import PaletteConsole

_BLANK_LINE = Strip([])


class BlockRow:
    """A transcript block. It is drawn on demand, and its height is an estimate until then."""

    __slots__ = (
        "_growing_strips",
        "_size_estimate",
        "are_todos_in_panel",
        "blank_lines_above",
        "block",
        "detail",
        "displayed_block",
        "height",
        "is_expanded",
        "is_measured",
        "is_ungrouped",
        "strips",
        "thoughts",
    )

    def __init__(
        self,
        block: Block,
        block_above: Block | None,
        width: int,
        detail: DetailLevel = "normal",
        thoughts_display: "ThoughtsDisplay" = "line",
        *,
        are_todos_in_panel: bool = False,
    ) -> None:
        self.block = block
        self.displayed_block: DisplayedBlock = block
        """What is drawn: the block itself, the group that starts with it, or None."""
        self.is_ungrouped = False
        """Whether the block is drawn on its own although it belongs to a group."""
        self.detail = detail
        """The detail level, which applies unless the user has expanded or collapsed the block."""
        self.thoughts = thoughts_display
        """How reasoning is shown, which applies unless the user has expanded or collapsed the block."""
        self.are_todos_in_panel = are_todos_in_panel
        """Whether the to-do list is in the side panel. If so, only its title line is shown here."""
        self.is_expanded = self._is_initially_expanded
        self.blank_lines_above = _blank_lines_between(block_above, block, detail)
        self.is_measured = False
        """Whether `height` was measured rather than estimated."""
        self.strips: list[Strip] | None = None
        self._growing_strips: GrowingStrips | None = None
        """The lines of streamed text so far."""
        self._size_estimate = _text_size(block)
        self.height = self.blank_lines_above + self._estimate_height(width)

    def replace_block(self, block: Block, block_above: Block | None) -> None:
        """Show another block. The height stays the same until it is drawn."""
        if not _has_grown(self.block, block):
            self._growing_strips = None
        has_other_type = type(block) is not type(self.block)
        self.block = block
        self.blank_lines_above = _blank_lines_between(block_above, block, self.detail)
        self._size_estimate = _text_size(block)
        if has_other_type:
            self.is_expanded = self._is_initially_expanded
        self.displayed_block = block
        self.strips, self.is_measured = None, False

    def set_displayed_block(self, displayed: DisplayedBlock, width: int) -> bool:
        """Set what is drawn for the block. Returns whether this changed."""
        if displayed is self.displayed_block or displayed == self.displayed_block:
            return False
        was_hidden, self.displayed_block = self.displayed_block is None, displayed
        self.strips, self.is_measured = None, False
        if displayed is None:
            self.height, self.is_measured = 0, True
        elif was_hidden:
            self.height = self.blank_lines_above + self._estimate_height(width)
        return True

    def update_gap(self, block_above: DisplayedBlock) -> bool:
        """Update the number of blank lines above the block. Returns whether it changed."""
        gap = _blank_lines_between(block_above, self.displayed_block, self.detail)
        if self.displayed_block is None or gap == self.blank_lines_above:
            return False
        self.height += gap - self.blank_lines_above
        self.blank_lines_above, self.strips = gap, None
        return True

    @property
    def is_markable(self) -> bool:
        return self.displayed_block is not None and is_markable(self.block)

    def toggle(self) -> None:
        self.is_expanded = not self.is_expanded
        self._growing_strips = None
        self.strips, self.is_measured = None, False

    def set_detail(self, detail: DetailLevel, thoughts_display: "ThoughtsDisplay") -> None:
        """Set the detail level, and forget what the user expanded or collapsed."""
        self.is_ungrouped = False
        self.detail, self.thoughts = detail, thoughts_display
        self.is_expanded = self._is_initially_expanded
        self._growing_strips = None
        self.strips, self.is_measured = None, False

    @property
    def _is_initially_expanded(self) -> bool:
        reasoning_mode = "open" if self.detail == "full" else self.thoughts
        return (
            reasoning_mode == "open"
            if isinstance(self.block, ReasoningBlock)
            else self.detail == "full" and is_expandable(self.block)
        )

    def reset_width(self, width: int) -> None:
        """Discard the cached lines because the width has changed."""
        self._growing_strips = None
        self.strips, self.is_measured = None, False
        self.height = self.blank_lines_above + self._estimate_height(width)

    def discard_lines(self) -> None:
        """Discard the cached lines because the colours or the screen height have changed. The height stays the same
        until the block is drawn."""
        self._growing_strips = None
        self.strips, self.is_measured = None, False

    def draw(self, width: int, console: "PaletteConsole") -> list[Strip]:
        """Draw the block at this width, including the blank lines above it."""
        if self.displayed_block is None:
            self.strips, self.height, self.is_measured = [], 0, True
        if self.strips is None:
            self.strips = [_BLANK_LINE] * self.blank_lines_above + self._drawn_strips(width, console)
            self.height, self.is_measured = len(self.strips), True
        return self.strips

    @property
    def _effective_detail(self) -> DetailLevel:
        if self.is_expanded:
            return "full"
        is_list = isinstance(self.block, Call) and role_of(self.block.name) == "list_todos"
        return "normal" if self.detail == "normal" and not (is_list and self.are_todos_in_panel) else "compact"

    def _estimate_height(self, width: int) -> int:
        """Estimate the height without drawing."""
        if self.displayed_block is None:
            return -self.blank_lines_above
        char_count, min_lines = self._size_estimate
        return char_count // max(1, width - MARGIN) + min_lines

    def _drawn_strips(self, width: int, console: "PaletteConsole") -> list[Strip]:
        match self.displayed_block:
            case LookupGroup() as lookups:
                lines = render.blocks.render_lookups(lookups, width, console)
            case (AnswerText() | ReasoningBlock()) as block if isinstance(block, AnswerText) or self.is_expanded:
                return self._draw_growing_text(block, width, console)
            case displayed:
                lines = render.blocks.render_block(displayed or self.block, self._effective_detail, width, console)
        return [Strip(line) for line in lines]

    def _draw_growing_text(
        self, block: AnswerText | ReasoningBlock, width: int, console: "PaletteConsole"
    ) -> list[Strip]:
        strips = self._growing_strips or GrowingStrips(
            render.blocks.AnswerRenderer(width, console, grows=block.is_streaming)
            if isinstance(block, AnswerText)
            else render.blocks.ReasoningRenderer(width, console)
        )
        self._growing_strips = strips if block.is_streaming else None
        return strips.draw(block.text)


def _text_size(block: Block) -> tuple[int, int]:
    """Count the characters to be wrapped. Also returns the minimum number of lines."""
    match block:
        case AnswerText(text=text) | UserText(text=text):
            return len(text), text.count("\n") + 1
        case Call(status="failed"):
            return 0, 2
        case _:
            return 0, 1


def _has_grown(old: Block, new: Block) -> bool:
    """Whether a block is the same answer or reasoning with more text."""
    return (
        isinstance(old, AnswerText | ReasoningBlock)
        and isinstance(new, AnswerText | ReasoningBlock)
        and type(old) is type(new)
        and new.text.startswith(old.text)
    )


def _blank_lines_between(block_above: DisplayedBlock, block: DisplayedBlock, detail: DetailLevel) -> int:
    """Count the blank lines above a block. There are none between neighbouring calls and reasoning, unless the upper
    block is a call that shows details."""
    if block_above is None:
        return 0
    compact_types = (Call, ReasoningBlock, LookupGroup)
    is_above_compact = detail == "compact" or not (isinstance(block_above, Call) and has_collapsed_details(block_above))
    return 0 if is_above_compact and isinstance(block_above, compact_types) and isinstance(block, compact_types) else 1
