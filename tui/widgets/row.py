"""One transcript block with its drawn lines."""

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from ebbtide.tui.view.block_groups import Drawing, LookupGroup
from ebbtide.tui.view.blocks import (
    MARGIN,
    AnswerText,
    Block,
    Call,
    Detail,
    ReasoningBlock,
    Retry,
    UserText,
    has_work,
    is_expandable,
)

if TYPE_CHECKING:  # types only: what draws is loaded when there is something to draw
    from ebbtide.agent.config.options import ThoughtsName
    from ebbtide.tui.render.blocks import AnswerPainter
    from ebbtide.tui.render.prose import PaletteConsole


class BlockRow:
    """A transcript block. Its height is estimated until it is drawn, on demand."""

    __slots__ = (
        "_extent",
        "_painter",
        "block",
        "detail",
        "drawn",
        "gap",
        "height",
        "is_beside",
        "measured",
        "opened",
        "strips",
        "thoughts",
        "unfolded",
    )

    def __init__(
        self,
        block: Block,
        above: Block | None,
        width: int,
        detail: Detail = "normal",
        thoughts: "ThoughtsName" = "line",
        *,
        is_beside: bool = False,
    ) -> None:
        self.block = block
        self.drawn: Drawing = block
        """What is drawn for the block."""
        self.unfolded = False
        """Whether it is drawn alone instead of in a group."""
        self.detail = detail
        """Detail level, unless the block was opened or closed individually."""
        self.thoughts = thoughts
        """Detail level of reasoning, unless opened or closed individually."""
        self.is_beside = is_beside
        """Whether the to-do list is in the side panel, so only its line is shown here."""
        self.opened = self._begins_open
        self.gap = _gap(above, block, detail)
        self.measured = False
        """Whether `height` is measured, not estimated."""
        self.strips: list[Strip] | None = None
        self._painter: AnswerPainter | None = None
        self._extent = _extent(block)
        self.height = self.gap + self._estimate_height(width)

    def change(self, block: Block, above: Block | None) -> None:
        """Show another block. The height stays until it is drawn."""
        if not (isinstance(block, AnswerText) and isinstance(self.block, AnswerText) and _has_grown(self.block, block)):
            self._painter = None
        is_other = type(block) is not type(self.block)
        self.block, self.gap, self._extent = block, _gap(above, block, self.detail), _extent(block)
        if is_other:
            self.opened = self._begins_open
        self.drawn = block
        self.strips, self.measured = None, False

    def draw_as(self, drawn: Drawing, width: int) -> bool:
        """Change what is drawn for the block; return whether it changed."""
        if drawn is self.drawn or drawn == self.drawn:
            return False
        was_hidden, self.drawn = self.drawn is None, drawn
        self.strips, self.measured = None, False
        if drawn is None:
            self.height, self.measured = 0, True
        elif was_hidden:
            self.height = self.gap + self._estimate_height(width)
        return True

    def update_gap(self, above: Drawing) -> bool:
        """Update the gap to the drawing above; return whether it changed."""
        gap = _gap(above, self.drawn, self.detail)
        if self.drawn is None or gap == self.gap:
            return False
        self.height += gap - self.gap
        self.gap, self.strips = gap, None
        return True

    def toggle(self) -> None:
        self.opened = not self.opened
        self.strips, self.measured = None, False

    def show_in(self, detail: Detail, thoughts: "ThoughtsName") -> None:
        """Set the detail level, also for individually opened or closed blocks."""
        self.unfolded = False
        self.detail, self.thoughts = detail, thoughts
        self.opened = self._begins_open
        self.strips, self.measured = None, False

    @property
    def _begins_open(self) -> bool:
        wanted = "open" if self.detail == "full" else self.thoughts
        return (
            wanted == "open"
            if isinstance(self.block, ReasoningBlock)
            else self.detail == "full" and is_expandable(self.block)
        )

    def resize(self, width: int) -> None:
        """Drop the cached lines: the width changed."""
        self._painter = None
        self.strips, self.measured = None, False
        self.height = self.gap + self._estimate_height(width)

    def recolor(self) -> None:
        """Drop the cached lines: colours or screen height changed. The height stays until the block is drawn."""
        self._painter = None
        self.strips, self.measured = None, False

    def draw(self, width: int, console: "PaletteConsole") -> list[Strip]:
        """The lines at that width, including the blank line above."""
        if self.drawn is None:
            self.strips, self.height, self.measured = [], 0, True
        if self.strips is None:
            lines = self._lines(width, console)
            self.strips = [Strip([])] * self.gap + [Strip(line) for line in lines]
            self.height, self.measured = len(self.strips), True
        return self.strips

    @property
    def _effective_detail(self) -> Detail:
        if self.opened:
            return "full"
        is_list = isinstance(self.block, Call) and self.block.name == "todo"
        return "normal" if self.detail == "normal" and not (is_list and self.is_beside) else "compact"

    def _estimate_height(self, width: int) -> int:
        """The approximate height, without drawing."""
        if self.drawn is None:
            return -self.gap
        characters, least = self._extent
        return characters // max(1, width - MARGIN) + least

    def _lines(self, width: int, console: "PaletteConsole") -> list[list[Segment]]:
        from ebbtide.tui.render.blocks import AnswerPainter, paint, paint_lookups  # noqa: PLC0415  # deferred: see above

        if isinstance(self.drawn, LookupGroup):
            return paint_lookups(self.drawn, width, console)
        if not isinstance(self.block, AnswerText):
            return paint(self.drawn or self.block, self._effective_detail, width, console)
        painter = self._painter or AnswerPainter(width, console)
        self._painter = painter if self.block.streaming else None
        return painter.draw(self.block.text)


def _extent(block: Block) -> tuple[int, int]:
    """The number of characters to wrap, and the minimum number of lines."""
    match block:
        case AnswerText(text=text) | UserText(text=text):
            return len(text), text.count("\n") + 1
        case Call(status="failed"):
            return 0, 2
        case _:
            return 0, 1


def _has_grown(before: AnswerText, after: AnswerText) -> bool:
    return after.text.startswith(before.text)


def _gap(above: Drawing, block: Drawing, detail: Detail) -> int:
    """Blank lines above a block; consecutive one-line calls and reasoning have none."""
    if above is None:
        return 0
    close = (Call, ReasoningBlock, Retry, LookupGroup)
    is_low = detail == "compact" or not (isinstance(above, Call) and has_work(above))
    return 0 if is_low and isinstance(above, close) and isinstance(block, close) else 1
