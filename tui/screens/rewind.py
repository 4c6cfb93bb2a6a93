"""The user's messages of a session and of its forks: the place to go back to. It forks and opens nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from agent.archive.tree import Tree, TreeRow
from tools.extent import counted
from tui.screens.guarded import GuardedScreen
from tui.text.styles import painted, palette_of
from tui.view.session_tree import about_lines, tree_line
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing

KEYS = "Enter goes back to before it   o opens that branch   Esc closes"


@dataclass(frozen=True, slots=True)
class RewindChoice:
    what: Literal["rewind", "open"]
    row: TreeRow


class RewindScreen(GuardedScreen[RewindChoice | None]):
    """Gives what to go back to."""

    AUTO_FOCUS = "#tree"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("enter", "take('rewind')", show=False),
        Binding("o", "take('open')", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
    ]
    CSS = """
    RewindScreen #dialog { height: 90%; width: 100%; }
    RewindScreen #headline { margin-bottom: 0; }
    RewindScreen #tree { height: 2fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $background; }
    RewindScreen #about { height: 1fr; max-height: 100%; scrollbar-size-vertical: 1; }
    RewindScreen #said { width: 100%; height: auto; text-wrap: wrap; text-overflow: fold; }
    """

    def __init__(self, tree: Tree, rows: Sequence[TreeRow], now: float) -> None:
        """`now` is in Unix seconds."""
        super().__init__()
        self._tree = tree
        self._rows = tuple(rows)
        self._now = now

    def means(self, key: events.Key) -> bool:
        return not key.is_printable or key.key in ("o", "q")

    def compose(self) -> ComposeResult:
        palette = palette_of(self.app.theme_variables)
        with Vertical(id="dialog"):
            forks = len(self._tree.branches) - 1
            told = counted(len(self._rows), "message") + (f", {counted(forks, 'fork')}" if forks else "")
            yield Static(Text.assemble(("Rewind  ", palette.strong), (told, palette.dim)), id="headline")
            yield Listing(id="tree")
            with VerticalScroll(id="about", can_focus=False):
                yield Static(id="said")
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        palette = palette_of(self.app.theme_variables)
        listing = self.query_one(Listing)
        listing.show(
            len(self._rows), lambda index, width: painted([tree_line(self._rows[index], width, self._now)], palette)
        )
        listing.move(max((at for at, row in enumerate(self._rows) if row.is_on_path), default=0))

    def on_listing_moved(self) -> None:
        said = painted(about_lines(self._tree, self.marked), palette_of(self.app.theme_variables))
        said.no_wrap, said.overflow = False, "fold"
        self.query_one("#said", Static).update(said)

    @property
    def marked(self) -> TreeRow:
        return self._rows[self.query_one(Listing).marked]

    def action_move(self, step: int) -> None:
        self.query_one(Listing).move(step)

    def action_page(self, step: int) -> None:
        listing = self.query_one(Listing)
        listing.move(step * max(1, listing.size.height - 1))

    def action_take(self, what: Literal["rewind", "open"]) -> None:
        self.dismiss(RewindChoice(what, self.marked))
