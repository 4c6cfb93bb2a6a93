"""The model's list of what is to be done, to look at."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.context.control_calls import TodoItem
from tui.text.styles import painted, palette_of
from tui.view.todos import todo_lines
from tui.widgets.keyline import KeyLine


class TodosScreen(ModalScreen[None]):
    """Gives nothing; any of its keys closes it."""

    AUTO_FOCUS = "#subject"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,f3", "dismiss", show=False)]

    def __init__(self, items: Sequence[TodoItem]) -> None:
        super().__init__()
        self._items = tuple(items)

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        done = sum(item.status == "done" for item in self._items)
        lines = painted(todo_lines(self._items), palette)
        lines.no_wrap, lines.overflow = False, "fold"
        with Vertical(id="dialog"):
            yield Static(
                Text.assemble(("To do  ", palette.strong), (f"{done} of {len(self._items)} done", palette.dim)),
                id="headline",
            )
            with VerticalScroll(id="subject", classes="tall"):
                yield Static(lines)
            yield KeyLine("Up, Down   Esc closes", id="answers")
