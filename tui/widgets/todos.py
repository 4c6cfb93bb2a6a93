"""One line with the current to-do item. It is shown while an item is in progress."""

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from ebbtide.tui.text.styles import get_palette
from ebbtide.tui.view.blocks import Block, SessionView
from ebbtide.tui.view.todos import IN_PROGRESS_MARK, format_summary, todos_from_blocks

if TYPE_CHECKING:  # the message module loads only after the first paint
    from ebbtide.agent.control_calls import TodoItem


class TodoLine(Widget):
    DEFAULT_CSS = """
    TodoLine { height: 1; padding: 0 1; display: none; }
    TodoLine.working { display: block; }
    .-tall TodoLine { height: 2; padding: 1 1 0 1; }
    .-wide.beside TodoLine { display: none; }
    """

    SCOPED_CSS = False
    """The screen's style sheet hides the line if there is a side panel, and adds a blank line if the screen is tall."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._past_blocks: tuple[Block, ...] = ()
        self._past_items: tuple[TodoItem, ...] = ()
        """The to-do list as it was after the past turns."""
        self._summary = ""

    def show(self, view: SessionView) -> None:
        if view.past_blocks is not self._past_blocks:
            self._past_blocks, self._past_items = view.past_blocks, todos_from_blocks(view.past_blocks) or ()
        items = todos_from_blocks(view.turn_blocks)
        summary = format_summary(self._past_items if items is None else items) if view.is_busy else ""
        if summary != self._summary:
            self._summary = summary
            self.set_class(bool(summary), "working")
            self.refresh()

    def render(self) -> Text:
        palette = get_palette(self.app.theme_variables)
        return Text.assemble(
            (f"{IN_PROGRESS_MARK} ", palette.accent), (self._summary, palette.dim), ("  F3 show all", palette.faint),
            no_wrap=True, overflow="ellipsis", end="",
        )  # fmt: skip
