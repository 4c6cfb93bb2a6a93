"""The archive browser: what the session has kept, found by typing, with a look at each."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.session.ports import Session, Shelf
from tui.text.styles import Palette, palette_of
from tui.view.archive import ArchiveRow, Ink, archive_line, matching, rows_of
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing
from tui.widgets.pages import Pages

KEYS = "Enter inserts  Ctrl-Y copies  PgUp, PgDn read  Tab to list  Esc closes"
LIST_KEYS = "Enter inserts  y copies  PgUp, PgDn read  letters filter  Esc closes"


async def archive_screen(session: Session, now: float) -> "ArchiveScreen":
    """The browser of what a session has kept. `now` is in Unix seconds. Raises `AgentError`."""
    shelf = session.shelf
    return ArchiveScreen(shelf, rows_of(await shelf.entries(session.history), now))


class ArchiveScreen(ModalScreen[str]):
    """Gives the reference to insert; empty when it was only looked at."""

    AUTO_FOCUS = "#filter"

    def __init__(self, shelf: Shelf, rows: Sequence[ArchiveRow]) -> None:
        super().__init__()
        self._rows = tuple(rows)
        self._found = self._rows
        self._column = max((len(row.ref) for row in rows), default=0)
        self._pages = Pages(shelf)

    @property
    def settled(self) -> bool:
        """The page of the marked row is on the screen."""
        return self._pages.settled

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            yield Field(placeholder="type to find", id="filter", select_on_focus=False)
            yield Listing(id="shelf")
            yield self._pages
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        self._fill("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._take()

    def on_listing_moved(self) -> None:
        if self._marked is None:
            self._pages.say("nothing was kept" if not self._rows else "nothing is found")
        else:
            self._pages.show(self._marked.ref)

    def on_descendant_focus(self) -> None:
        self.query_one(KeyLine).show(LIST_KEYS if self.query_one(Listing).has_focus else KEYS)

    def on_key(self, event: events.Key) -> None:
        listing = self.query_one(Listing)
        match event.key:
            case "escape":
                self.dismiss("")
            case "up" | "down":
                listing.move(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self._pages.turn(self._pages.lines * (-1 if event.key == "pageup" else 1))
            case "ctrl+y":
                self._copy()
            case "enter" if listing.has_focus:
                self._take()
            case "y" if listing.has_focus:
                self._copy()
            case _ if listing.has_focus and event.character and event.is_printable:
                self.query_one("#filter", Field).go_on_with(event.character)
            case _:
                return
        event.stop()
        event.prevent_default()

    @property
    def _marked(self) -> ArchiveRow | None:
        index = self.query_one(Listing).marked
        return self._found[index] if index < len(self._found) else None

    def _fill(self, words: str) -> None:
        palette = palette_of(self.app.theme_variables)
        self._found = matching(self._rows, words)
        found = self._found
        kept = f"{len(found):,} of {len(self._rows):,}" if words.strip() else f"{len(found):,}"
        self.query_one("#headline", Static).update(
            Text.assemble(("Archive  ", palette.strong), (f"{kept} kept", palette.dim))
        )

        def paint(index: int, width: int) -> Text:
            return painted(found[index], width, self._column, palette)

        self.query_one(Listing).show(len(found), paint)

    def _take(self) -> None:
        if self._marked is not None:
            self.dismiss(self._marked.ref)

    def _copy(self) -> None:
        if self._marked is not None:
            self.app.copy_to_clipboard(self._marked.ref)
            self.query_one(KeyLine).tell(f"copied {self._marked.ref}")


def painted(row: ArchiveRow, width: int, column: int, palette: Palette) -> Text:
    inks: dict[Ink, Style] = {
        "text": palette.text,
        "dim": palette.dim,
        "accent": palette.link + Style(underline=False),
        "warn": palette.warn,
    }
    text = Text(no_wrap=True, overflow="ellipsis", end="")
    for words, ink in archive_line(row, width, column):
        text.append(words, inks[ink])
    return text
