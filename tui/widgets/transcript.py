"""The transcript widget: blocks, which of them are open, and the marked one."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from ebbtide.tui.text.sanitise import pasted_text
from ebbtide.tui.view.block_groups import LookupGroup
from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    Detail,
    Failure,
    OlderMessages,
    ReasoningBlock,
    SummaryBlock,
    UserText,
    is_expandable,
)
from ebbtide.tui.view.receipts import Compaction
from ebbtide.tui.widgets.row import BlockRow
from ebbtide.tui.widgets.searched_rows import SearchedRows
from ebbtide.tui.widgets.selection import over
from ebbtide.tui.widgets.sticky_line import message_above, sticky_strip

if TYPE_CHECKING:  # a type only: settings are loaded behind the first paint
    from ebbtide.agent.config.options import ThoughtsName

_MARKABLE_BLOCKS = (UserText, AnswerText, Call, ReasoningBlock, SummaryBlock, Compaction, Failure, OlderMessages)
"""Blocks that can be marked."""
_NEWS = (UserText, AnswerText, Call, Failure)
"""Blocks that count as new."""


class TranscriptView(SearchedRows, can_focus=True):
    """All blocks of a session, drawn line by line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "mark(-1)", show=False),
        Binding("down", "mark(1)", show=False),
        Binding("enter,space", "toggle_marked", show=False),
        Binding("escape", "leave", show=False),
    ]

    class TranscriptLeft(Message):
        """The user left the transcript; `typed` is the character that did so, if any."""

        def __init__(self, typed: str = "") -> None:
            super().__init__()
            self.typed = typed

    class Unseen(Message):
        """The number of new blocks below the screen changed."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    class OlderMessagesRequested(Message):
        """The user scrolled to the start, and there are older messages."""

    class CopyRequested(Message):
        """The user wants to copy a block."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen = self._unseen = 0
        """Number of rows seen so far, and of new blocks after them."""
        self._marked: BlockRow | None = None
        self._is_clicked = False
        """Whether it got the focus by a click: then letters go to the prompt."""
        self._greeting: Callable[[int, int], Text] = lambda width, height: Text()
        self._greeted: tuple[Size, list[Text]] = Size(0, 0), []
        """The greeting's lines, cached by size."""

    # Public methods

    def show(self, past: Sequence[Block], turn: Sequence[Block] = ()) -> None:
        """Show these blocks. Blocks that are the same objects as before are not redrawn, and a `past` that is the
        same object is skipped."""
        self._stack.show(past, turn)
        if self._marked is not None and (self._marked.drawn is None or self._marked not in self._stack.rows):
            self._marked = None
        self._settle()
        self.refresh()

    def restart(self, blocks: Sequence[Block]) -> None:
        """Show another session from its end. If that is already shown, the screen stays."""
        rows, (index, offset) = self._stack.rows, self._anchor
        more = len(blocks) - len(rows)
        is_end = rows and more >= 0 and all(row.block == block for row, block in zip(rows, blocks[more:], strict=True))
        self._stack.restart(blocks, len(rows) if is_end else 0)
        self._marked = self._search = None
        self._following, self._anchor = self._following or not is_end, (index + more, offset)
        self._seen += more
        self.show(blocks)

    def begin_earlier(self, past: Sequence[Block], turn: Sequence[Block], more: int) -> None:
        """Show the same blocks with `more` before them. The visible lines stay in place."""
        index, offset = self._anchor
        self._stack.begin_earlier(past, turn, more)
        # The rows below the placeholder of older messages keep their place.
        self._anchor = (index + more, offset) if index else (more, max(0, offset - 1))
        self._seen += more
        if self._search is not None:
            self._search.shift_rows(more)
        self._marked = self._marked if self._marked in self._stack.rows else None
        self.show(past, turn)

    def page(self, direction: int) -> None:
        super().page(direction)
        if direction < 0:
            self._look_up()

    def go_home(self) -> None:
        super().go_home()
        self._look_up()

    def on_mouse_scroll_up(self) -> None:
        self._look_up()

    def _look_up(self) -> None:
        """Request older messages at the top."""
        rows = self._stack.rows
        if rows and isinstance(rows[0].block, OlderMessages) and self.scroll_offset.y <= 0:
            # Posted by ourselves: a message posted while the screen handles another counts as the screen's and would
            # not bubble.
            self.call_next(lambda: self.post_message(self.OlderMessagesRequested()))

    @property
    def detail(self) -> Detail:
        """The detail level."""
        return self._stack.detail

    def show_in(self, detail: Detail | None = None, thoughts: "ThoughtsName | None" = None) -> None:
        """Set the detail level of blocks, or of reasoning. The top of the screen stays in place, or else the end."""
        self._stack.show_in(detail or self._stack.detail, thoughts or self._stack.thoughts)
        self._settle()
        self.refresh()

    def set_todos_beside(self, is_beside: bool) -> None:
        """Set whether the to-do list is in the side panel; then only its line is shown here."""
        if is_beside != self._stack.is_beside:
            self._stack.set_todos_beside(is_beside)
            self._settle()
            self.refresh()

    def jump(self, direction: int) -> None:
        """Jump to the user's message before (-1) or after (1) the top of the screen."""
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

    @property
    def opened_blocks(self) -> tuple[Block, ...]:
        return tuple(row.block for row in self._stack.rows if row.opened)

    @property
    def marked_block(self) -> Block | None:
        return self._marked.block if self._marked is not None else None

    def visible_text(self) -> str:
        """The visible lines as plain text."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))

    # Drawing

    def _after_settle(self) -> None:
        """Report the number of new blocks below the screen."""
        rows = self._stack.rows
        if self._following or not rows:
            self._seen, unseen = len(rows), 0
        else:
            index, line = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            self._seen = max(min(self._seen, len(rows)), index + (line >= rows[index].gap))
            unseen = sum(isinstance(row.block, _NEWS) and row.drawn is not None for row in rows[self._seen :])
        if unseen != self._unseen:
            self._unseen = unseen
            self.post_message(self.Unseen(unseen))

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        width, base = self.size.width, self._base or self.rich_style
        self._base = base
        if not self._stack.rows:
            return self._greeting_line(y, width, base)
        if y == 0 and (sticky := self._sticky) is not None and self._has_inks() and self._palette is not None:
            return sticky_strip(self._text_of(sticky), width, self._palette).apply_style(base)
        y += self.scroll_offset.y
        if y >= self._stack.height or y < 0 or not self._has_inks():
            return Strip.blank(width, base)
        index, line = self._stack.locate(y)
        row, strips = self._stack.rows[index], self._stack.draw(index)
        if line >= len(strips):
            return Strip.blank(width, base)
        strip = strips[line].crop_extend(0, width, base).apply_style(base)
        if self._palette is not None and row is self._marked and line >= row.gap and self.has_focus:
            strip = over(strip, self._palette.marked)
        return self._with_selection(self._with_found(strip, index, line), y).apply_offsets(0, y)

    def greet(self, greeting: Callable[[int, int], Text]) -> None:
        """Show a greeting before the first block; it is called with columns and lines."""
        self._greeting, self._greeted = greeting, (Size(0, 0), [])
        self.refresh()

    @property
    def _sticky(self) -> int | None:
        """The row of the message shown in the sticky line, while scrolled up."""
        return None if self._following or not self._stack.rows else message_above(self._stack, self.scroll_offset.y)

    def _text_of(self, index: int) -> str:
        block = self._stack.rows[index].block
        return block.text if isinstance(block, UserText) else ""

    def _greeting_line(self, y: int, width: int, base: Style) -> Strip:
        if self._greeted[0] != self.size:
            self._greeted = self.size, list(self._greeting(*self.size).split("\n"))
        lines = self._greeted[1]
        y -= max(0, self.size.height - len(lines) - 1)
        if not 0 <= y < len(lines):
            return Strip.blank(width, base)
        line = lines[y]
        line.truncate(max(1, width))
        return Strip(line.render(self.app.console)).crop_extend(0, width, base).apply_style(base)

    # Opening and closing blocks

    def walk(self) -> None:
        """Take the focus to browse the blocks: letters are commands."""
        self._is_clicked = False
        self.focus()
        self.on_focus()

    def on_focus(self) -> None:
        if self._marked is None and not self._is_clicked:
            self.action_mark(-1)

    def focus_on_click(self) -> bool:
        """Called before a click gives it the focus."""
        self._is_clicked = True
        return True

    def on_blur(self) -> None:
        self._is_clicked = False

    def on_click(self, event: events.Click) -> None:
        if not self._stack.rows or self.text_selection is not None:
            return
        if event.y == 0 and (sticky := self._sticky) is not None:
            self._hold(sticky, self._stack.rows[sticky].gap)
            return
        index, line = self._stack.locate(event.y + self.scroll_offset.y)
        row = self._stack.rows[index]
        if row.drawn is not None and isinstance(row.block, _MARKABLE_BLOCKS):
            self._marked = row
            self.refresh()
        if line == row.gap and is_expandable(row.block):
            self._toggle(index)

    def action_mark(self, step: int) -> None:
        """Move the mark to the next block and scroll to it. It starts at an expandable block."""
        rows = self._stack.rows
        walked = [
            index for index, row in enumerate(rows) if row.drawn is not None and isinstance(row.block, _MARKABLE_BLOCKS)
        ]
        if not walked:
            self._go_to(self.scroll_offset.y + step)
            return
        here = next((place for place, index in enumerate(walked) if rows[index] is self._marked), None)
        if here is None:
            foldable = [index for index in walked if is_expandable(rows[index].block)] or walked
            index = foldable[min(step, 0)]
        else:
            index = walked[max(0, min(here + step, len(walked) - 1))]
        self._marked = rows[index]
        top = self._stack.start(index)
        if not self.scroll_offset.y < top + rows[index].gap < self.scroll_offset.y + self.size.height:
            self._go_to(top - self.size.height // 3)
        self.refresh()

    def action_toggle_marked(self) -> None:
        if self._marked is not None and is_expandable(self._marked.block):
            self._toggle(self._stack.rows.index(self._marked))

    def action_leave(self) -> None:
        self.post_message(self.TranscriptLeft())

    def on_key(self, event: events.Key) -> None:
        if self._search is not None and event.character in ("n", "N"):
            return  # whoever began the search goes on with it
        if self._is_clicked:
            if event.is_printable and event.character:
                event.stop()
                self.post_message(self.TranscriptLeft(event.character))
        elif event.key == "u" and isinstance(self.marked_block, Compaction):
            event.stop()
            self.call_later(self.run_action, "app.command('context', 'undo')")
        elif event.key == "s" and isinstance(self.marked_block, Call) and self.marked_block.is_agent_at_work:
            event.stop()
            self.call_later(self.run_action, f"app.command('agents', {f'stop {self.marked_block.call_id}'!r})")
        elif event.character == "Y":
            event.stop()
            self.call_later(self.run_action, "app.command('copy')")
        elif event.character == "y" and self._marked is not None:
            event.stop()
            self.post_message(self.CopyRequested(self._marked.block))
        elif event.is_printable and event.character and event.key != "space":
            event.stop()
            self.post_message(self.TranscriptLeft(event.character))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(self.TranscriptLeft(pasted_text(event.text)))

    def _toggle(self, index: int) -> None:
        """Expand or collapse a row. What is above stays in place as far as possible."""
        row = self._stack.rows[index]
        if isinstance(row.block, OlderMessages):
            self.post_message(self.OlderMessagesRequested())
            return
        if (
            isinstance(row.block, SummaryBlock)
            and not row.opened
            and index
            and isinstance(self._stack.rows[index - 1].block, OlderMessages)
        ):
            self.post_message(self.OlderMessagesRequested())
        if isinstance(row.drawn, LookupGroup):
            self._stack.unfold(index)
        else:
            row.toggle()
            self._stack.refold()
        self._hold(*self._stack.locate(self.scroll_offset.y))
        self._stack.measure((index,), 1)
        start, top = self._stack.start(index), self.scroll_offset.y
        if row.opened and not top < start <= start + row.height <= top + self.size.height:
            lowest = max(0, start + row.height - self.size.height)
            title = max(0, start + row.gap - 1)  # below the line at the top that says to which message it belongs
            self._hold(*self._stack.locate(min(lowest, title)))
        self.refresh()
