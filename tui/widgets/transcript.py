"""The transcript widget: its blocks, which of them are expanded, which one is marked, and the greeting before them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.console import Console
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from ebbtide.tui.text.sanitise import normalise_paste
from ebbtide.tui.view.block_groups import LookupGroup
from ebbtide.tui.view.blocks import (
    AnswerText,
    Block,
    Call,
    DetailLevel,
    Failure,
    OlderMessages,
    SummaryBlock,
    UserText,
    is_expandable,
)
from ebbtide.tui.view.receipts import Compaction
from ebbtide.tui.widgets.message_rows import adjacent_message_row, message_row_above, sticky_strip
from ebbtide.tui.widgets.row import BlockRow
from ebbtide.tui.widgets.searched_rows import SearchedRows
from ebbtide.tui.widgets.selection import with_style

if TYPE_CHECKING:  # the settings module loads only after the first paint
    from ebbtide.agent.config.options import ThoughtsDisplay

_NEW_CONTENT_BLOCKS = (UserText, AnswerText, Call, Failure)
"""Blocks that count as new content below the screen."""


class GreetingLines:
    """A greeting at the bottom of a widget. Its lines are cached for the last size."""

    def __init__(self, draw: Callable[[int, int], Text] = lambda width, height: Text()) -> None:
        """`draw` is called with the numbers of columns and lines."""
        self._draw = draw
        self._size = Size(0, 0)
        self._lines: list[Text] = []

    def strip(self, y: int, size: Size, console: Console, base_style: Style) -> Strip:
        """Return one line of a widget of this size."""
        if self._size != size:
            self._size, self._lines = size, list(self._draw(*size).split("\n"))
        y -= max(0, size.height - len(self._lines) - 1)
        if not 0 <= y < len(self._lines):
            return Strip.blank(size.width, base_style)
        line = self._lines[y]
        line.truncate(max(1, size.width))
        return Strip(line.render(console)).crop_extend(0, size.width, base_style).apply_style(base_style)


class TranscriptView(SearchedRows, can_focus=True):
    """All blocks of a session, drawn line by line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "mark(-1)", show=False),
        Binding("down", "mark(1)", show=False),
        Binding("enter,space", "toggle_marked", show=False),
        Binding("escape", "leave", show=False),
    ]

    class TranscriptLeft(Message):
        """The user left the transcript. `typed`: the character that the user typed to leave it, if any."""

        def __init__(self, typed: str = "") -> None:
            super().__init__()
            self.typed_text = typed

    class UnseenCountChanged(Message):
        """The number of new blocks below the screen has changed."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.count = count

    class OlderMessagesRequested(Message):
        """The user has scrolled to the start, and there are older messages."""

    class CopyRequested(Message):
        """The user wants to copy a block."""

        def __init__(self, block: Block) -> None:
            super().__init__()
            self.block = block

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._seen_row_count = self._unseen_count = 0
        """Number of rows seen so far, and number of new blocks below them."""
        self._marked_row: BlockRow | None = None
        self._was_clicked = False
        """Whether the transcript got the focus from a click. If so, typed letters go to the prompt."""
        self._greeting = GreetingLines()

    # Public methods

    def show(self, past_blocks: Sequence[Block], turn_blocks: Sequence[Block] = ()) -> None:
        """Show these blocks. Unchanged blocks, which are the same objects as before, are not redrawn. If `past_blocks`
        is the same tuple as before, all of it is skipped."""
        had_rows, previous_lines, previous_y = bool(self._stack.rows), self._visible_strips(), self.scroll_offset.y
        self._stack.set_blocks(past_blocks, turn_blocks)
        if self._marked_row is not None and (
            self._marked_row.displayed_block is None or self._marked_row not in self._stack.rows
        ):
            self._marked_row = None
        self._place_rows()
        is_plain = had_rows and self._is_following and self._search is None and self._marked_row is None
        if not is_plain or self.scroll_offset.y != previous_y:
            self.refresh()
            return
        changed_lines = [
            y
            for y, strips in enumerate(zip(previous_lines, self._visible_strips(), strict=False))
            if strips[0] is not strips[1]
        ]
        if changed_lines:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed_lines))

    def _visible_strips(self) -> list[Strip | None]:
        """The strips on the screen. None where there are none, or where they have to be drawn again."""
        return self._stack.drawn_strips(self.scroll_offset.y, self.size.height)

    def replace_blocks(self, blocks: Sequence[Block]) -> None:
        """Show another session, scrolled to its end. If that session ends with the blocks shown now, the visible lines
        stay where they are."""
        rows, (index, offset) = self._stack.rows, self._top_position
        new_count = len(blocks) - len(rows)
        ends_with_current = (
            rows
            and new_count >= 0
            and all(row.block == block for row, block in zip(rows, blocks[new_count:], strict=True))
        )
        self._stack.replace_blocks(blocks, len(rows) if ends_with_current else 0)
        self._marked_row = self._search = None
        self._is_following = self._is_following or not ends_with_current
        self._top_position = (index + new_count, offset)
        self._seen_row_count += new_count
        self.show(blocks)

    def prepend_blocks(self, past_blocks: Sequence[Block], turn_blocks: Sequence[Block], count: int) -> None:
        """Add `count` earlier blocks at the start. The visible lines stay where they are."""
        index, offset = self._top_position
        self._stack.prepend_blocks(past_blocks, turn_blocks, count)
        # Keep the rows below the placeholder for older messages where they are.
        self._top_position = (index + count, offset) if index else (count, max(0, offset - 1))
        self._seen_row_count += count
        if self._search is not None:
            self._search.shift_rows(count)
        self._marked_row = self._marked_row if self._marked_row in self._stack.rows else None
        self.show(past_blocks, turn_blocks)

    def scroll_page(self, direction: int) -> None:
        super().scroll_page(direction)
        if direction < 0:
            self._request_older_messages()

    def go_to_start(self) -> None:
        super().go_to_start()
        self._request_older_messages()

    def on_mouse_scroll_up(self) -> None:
        self._request_older_messages()

    def _request_older_messages(self) -> None:
        """Request older messages if the view is at the top."""
        rows = self._stack.rows
        if rows and isinstance(rows[0].block, OlderMessages) and self.scroll_offset.y <= 0:
            # Post the message from the widget itself. It would not bubble if the screen posted it while handling
            # another message.
            self.call_next(lambda: self.post_message(self.OlderMessagesRequested()))

    @property
    def detail(self) -> DetailLevel:
        """The detail level."""
        return self._stack.detail

    def set_detail(self, detail: DetailLevel | None = None, thoughts: "ThoughtsDisplay | None" = None) -> None:
        """Set the detail level of blocks or of reasoning. The top line of the screen stays where it is. If the view is
        at the end, it stays there."""
        self._stack.set_detail(detail or self._stack.detail, thoughts or self._stack.thoughts)
        self._place_rows()
        self.refresh()

    def set_todos_in_panel(self, are_todos_in_panel: bool) -> None:
        """Set whether the to-do list is in the side panel. If so, its block here is only one line."""
        if are_todos_in_panel != self._stack.are_todos_in_panel:
            self._stack.set_todos_in_panel(are_todos_in_panel)
            self._place_rows()
            self.refresh()

    def jump_to_message(self, direction: int) -> None:
        """Jump to the user's message above (-1) or below (1) the top of the screen."""
        index = adjacent_message_row(self._stack, self.scroll_offset.y, direction)
        if index is not None:
            self._scroll_to_row(index, self._stack.rows[index].blank_lines_above)
        elif direction < 0:
            self.go_to_start()
        else:
            self.go_to_end()

    @property
    def expanded_blocks(self) -> tuple[Block, ...]:
        return tuple(row.block for row in self._stack.rows if row.is_expanded)

    @property
    def marked_block(self) -> Block | None:
        return self._marked_row.block if self._marked_row is not None else None

    def visible_text(self) -> str:
        """Get the visible lines as plain text."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))

    # Drawing

    def _after_placing(self) -> None:
        """Report how many new blocks are below the screen."""
        rows = self._stack.rows
        if self._is_following or not rows:
            self._seen_row_count, unseen_count = len(rows), 0
        else:
            index, line = self._stack.locate(self.scroll_offset.y + self.size.height - 1)
            self._seen_row_count = max(
                min(self._seen_row_count, len(rows)), index + (line >= rows[index].blank_lines_above)
            )
            unseen_count = sum(
                isinstance(row.block, _NEW_CONTENT_BLOCKS) and row.displayed_block is not None
                for row in rows[self._seen_row_count :]
            )
        if unseen_count != self._unseen_count:
            self._unseen_count = unseen_count
            self.post_message(self.UnseenCountChanged(unseen_count))

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        width, base_style = self.size.width, self._base_style or self.rich_style
        self._base_style = base_style
        if not self._stack.rows:
            return self._greeting.strip(y, self.size, self.app.console, base_style)
        if (
            y == 0
            and (sticky_row := self._sticky_row) is not None
            and self._prepare_console()
            and self._palette is not None
        ):
            return sticky_strip(self._stack.rows[sticky_row].block, width, self._palette).apply_style(base_style)
        y += self.scroll_offset.y
        if y >= self._stack.height or y < 0 or not self._prepare_console():
            return Strip.blank(width, base_style)
        index, line = self._stack.locate(y)
        row, strips = self._stack.rows[index], self._stack.draw(index)
        if line >= len(strips):
            return Strip.blank(width, base_style)
        strip = strips[line].crop_extend(0, width, base_style).apply_style(base_style)
        if self._palette is not None and row is self._marked_row and line >= row.blank_lines_above and self.has_focus:
            strip = with_style(strip, self._palette.marked_block)
        return self._with_selection(self._with_matches(strip, index, line), y).apply_offsets(0, y)

    def show_greeting(self, draw_greeting: Callable[[int, int], Text]) -> None:
        """Show a greeting until there is a block. `draw_greeting` is called with the number of columns and of lines."""
        self._greeting = GreetingLines(draw_greeting)
        self.refresh()

    @property
    def _sticky_row(self) -> int | None:
        """The row of the message shown in the sticky line; None unless the user has scrolled up."""
        return (
            None if self._is_following or not self._stack.rows else message_row_above(self._stack, self.scroll_offset.y)
        )

    # Expanding and collapsing blocks

    def browse(self) -> None:
        """Take the focus so that the user can browse the blocks. Letters then run commands."""
        self._was_clicked = False
        self.focus()
        self.on_focus()

    def on_focus(self) -> None:
        if self._marked_row is None and not self._was_clicked:
            self.action_mark(-1)

    def focus_on_click(self) -> bool:
        """Let a click focus the transcript, and remember that it was a click."""
        self._was_clicked = True
        return True

    def on_blur(self) -> None:
        self._was_clicked = False

    def on_click(self, event: events.Click) -> None:
        if not self._stack.rows or self.text_selection is not None:
            return
        if event.y == 0 and (sticky_row := self._sticky_row) is not None:
            self._scroll_to_row(sticky_row, self._stack.rows[sticky_row].blank_lines_above)
            return
        index, line = self._stack.locate(event.y + self.scroll_offset.y)
        row = self._stack.rows[index]
        if row.is_markable:
            self._marked_row = row
            self.refresh()
        if line == row.blank_lines_above and is_expandable(row.block):
            self._toggle_row(index)

    def action_mark(self, step: int) -> None:
        """Mark the next or previous block, scrolling if necessary. If nothing was marked, start with a block that can
        be expanded."""
        index = self._stack.next_markable(self._marked_row, step)
        if index is None:
            self._scroll_to_line(self.scroll_offset.y + step)
            return
        row = self._marked_row = self._stack.rows[index]
        top = self._stack.start_line(index)
        if not self.scroll_offset.y < top + row.blank_lines_above < self.scroll_offset.y + self.size.height:
            self._scroll_to_line(top - self.size.height // 3)
        self.refresh()

    def action_toggle_marked(self) -> None:
        if self._marked_row is not None and is_expandable(self._marked_row.block):
            self._toggle_row(self._stack.rows.index(self._marked_row))

    def action_leave(self) -> None:
        self.post_message(self.TranscriptLeft())

    def on_key(self, event: events.Key) -> None:
        if self._search is not None and event.character in ("n", "N"):
            return  # handled by the widget that opened the search
        if self._was_clicked:
            if event.is_printable and event.character:
                event.stop()
                self.post_message(self.TranscriptLeft(event.character))
        elif action := _action_for_key(event.character, self.marked_block):
            event.stop()
            self.call_later(self.run_action, action)
        elif event.character == "y" and self._marked_row is not None:
            event.stop()
            self.post_message(self.CopyRequested(self._marked_row.block))
        elif event.is_printable and event.character and event.key != "space":
            event.stop()
            self.post_message(self.TranscriptLeft(event.character))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.post_message(self.TranscriptLeft(normalise_paste(event.text)))

    def _toggle_row(self, index: int) -> None:
        """Expand or collapse a row. If possible, the lines above it stay where they are."""
        row = self._stack.rows[index]
        if isinstance(row.block, OlderMessages):
            self.post_message(self.OlderMessagesRequested())
            return
        if (
            isinstance(row.block, SummaryBlock)
            and not row.is_expanded
            and index
            and isinstance(self._stack.rows[index - 1].block, OlderMessages)
        ):
            self.post_message(self.OlderMessagesRequested())
        if isinstance(row.displayed_block, LookupGroup):
            self._stack.ungroup(index)
        else:
            row.toggle()
            self._stack.regroup()
        self._scroll_to_row(*self._stack.locate(self.scroll_offset.y))
        self._stack.measure((index,), 1)
        start_line, top = self._stack.start_line(index), self.scroll_offset.y
        if row.is_expanded and not top < start_line <= start_line + row.height <= top + self.size.height:
            lowest_top = max(0, start_line + row.height - self.size.height)
            title_line = max(0, start_line + row.blank_lines_above - 1)  # below the sticky line
            self._scroll_to_row(*self._stack.locate(min(lowest_top, title_line)))
        self.refresh()


def _action_for_key(character: str | None, block: Block | None) -> str:
    """Return the action that a key runs while a block is marked; empty if there is none."""
    if character == "u" and isinstance(block, Compaction):
        return "app.command('context', 'undo')"
    if character == "s" and isinstance(block, Call) and block.has_running_agent:
        return f"app.command('agents', {f'stop {block.call_id}'!r})"
    return "app.command('copy')" if character == "Y" else ""
