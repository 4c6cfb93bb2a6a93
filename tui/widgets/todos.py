"""One line with the current to-do item, shown while one is in progress."""

from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from ebbtide.tui.text.styles import palette_of
from ebbtide.tui.view.blocks import Block, SessionView
from ebbtide.tui.view.todos import NOW, summary_of, todos_in

if TYPE_CHECKING:  # a type only: messages are loaded behind the first paint
    from ebbtide.agent.context.control_calls import TodoItem


class TodoLine(Widget):
    DEFAULT_CSS = """
    TodoLine { height: 1; padding: 0 1; display: none; }
    TodoLine.working { display: block; }
    .-tall TodoLine { height: 2; padding: 1 1 0 1; }
    .-wide.beside TodoLine { display: none; }
    """

    SCOPED_CSS = False
    """The screen's style sheet decides on the side panel and the blank line."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._past: tuple[Block, ...] = ()
        self._before: tuple[TodoItem, ...] = ()
        """The list after the turns in `_past`."""
        self._summary = ""

    def show(self, view: SessionView) -> None:
        if view.past is not self._past:
            self._past, self._before = view.past, todos_in(view.past) or ()
        items = todos_in(view.turn)
        summary = summary_of(self._before if items is None else items) if view.busy else ""
        if summary != self._summary:
            self._summary = summary
            self.set_class(bool(summary), "working")
            self.refresh()

    def render(self) -> Text:
        palette = palette_of(self.app.theme_variables)
        return Text.assemble(
            (f"{NOW} ", palette.accent), (self._summary, palette.dim), ("  F3 shows all", palette.faint),
            no_wrap=True, overflow="ellipsis", end="",
        )  # fmt: skip
