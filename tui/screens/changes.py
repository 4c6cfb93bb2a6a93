"""Which files were changed, with the diff of the one that is marked."""

import asyncio
from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.errors import AgentError
from agent.records.file_change import Changes, Scope
from tui.session.ports import Files
from tui.text.sanitise import visible, visible_line
from tui.text.styles import painted, palette_of
from tui.text.unified_diff import files_of
from tui.view.file_changes import FileChangeRow, change_line, headline_of, rows_of
from tui.widgets.diffview import DiffView
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing

KEYS = "Up, Down files  PgUp, PgDn read  n, p changes  s turn or session  Esc closes"
_WIDE = 100
"""Columns from which on the list stands beside the diff."""
_ON_TOP = 8
"""Lines of the list where it stands above."""


async def changes_screen(files: Files, scope: Scope) -> "ChangesScreen":
    """Raises `AgentError`."""
    changes = await files.changes(scope)
    return ChangesScreen(files, changes, await asyncio.to_thread(rows_of, changes))


class ChangesScreen(ModalScreen[None]):
    """Looks only: nothing is changed from here."""

    AUTO_FOCUS = "#shelf"
    CSS = """
    ChangesScreen #dialog.high { max-width: 100%; max-height: 100%; height: 100%; }
    ChangesScreen #both { height: 1fr; layout: vertical; }
    ChangesScreen #both.wide { layout: horizontal; }
    ChangesScreen #both.wide #shelf { width: 36; height: 1fr; margin-right: 2; }
    ChangesScreen #right { height: 1fr; width: 1fr; }
    ChangesScreen #shelf { margin-bottom: 1; }
    ChangesScreen #about { height: auto; max-height: 3; }
    """

    def __init__(self, files: Files, changes: Changes, rows: Sequence[FileChangeRow]) -> None:
        super().__init__()
        self._files = files
        self._changes = changes
        self._rows = tuple(rows)

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            with Container(id="both"):
                yield Listing(id="shelf")
                with Vertical(id="right"):
                    yield Static(id="about", markup=False)
                    yield DiffView(id="diff")
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        self.query_one(DiffView).can_focus = False
        self._fill()

    def on_resize(self) -> None:
        is_wide = self.size.width >= _WIDE
        self.query_one("#both").set_class(is_wide, "wide")
        self.query_one(Listing).styles.height = "1fr" if is_wide else max(1, min(_ON_TOP, len(self._rows)))

    def _fill(self) -> None:
        palette, rows = palette_of(self.app.theme_variables), self._rows
        head = headline_of(self._changes.scope, rows, self._changes.told)
        self.query_one("#headline", Static).update(painted(head, palette))

        def paint(index: int, width: int) -> Text:
            return painted([change_line(rows[index], width)], palette)

        self.query_one(Listing).show(len(rows), paint)
        self.on_resize()

    def on_listing_moved(self) -> None:
        marked = self.query_one(Listing).marked
        row = self._rows[marked] if marked < len(self._rows) else None
        about, view = self.query_one("#about", Static), self.query_one(DiffView)
        about.display = bool(row and row.told)
        if row is None:
            return view.show_code("", "")
        about.update(Text(visible_line(row.told), palette_of(self.app.theme_variables).warn))
        if row.diff:
            return view.show_diff(files_of(row.diff))
        return view.show_code("nothing differs" if row.is_known else "", "")

    def on_key(self, event: events.Key) -> None:
        listing, view = self.query_one(Listing), self.query_one(DiffView)
        match event.key:
            case "escape" | "q":
                self.dismiss()
            case "up" | "k" | "down" | "j":
                listing.move(-1 if event.key in ("up", "k") else 1)
            case "pageup":
                view.scroll_page_up(animate=False)
            case "pagedown" | "space":
                view.scroll_page_down(animate=False)
            case "home":
                view.scroll_home(animate=False)
            case "end":
                view.scroll_end(animate=False)
            case "n" | "p":
                view.next_change(1 if event.key == "n" else -1)
            case "m":
                view.action_more()
            case "s":
                self.run_worker(self._turn_to_other_scope(), group="scope", exclusive=True)
            case _:
                return
        event.stop()
        event.prevent_default()

    async def _turn_to_other_scope(self) -> None:
        scope: Scope = "session" if self._changes.scope == "turn" else "turn"
        try:
            changes = await self._files.changes(scope)
        except AgentError as error:
            self.query_one(KeyLine).tell(visible(str(error)), "warn")
            return
        self._changes, self._rows = changes, await asyncio.to_thread(rows_of, changes)
        self._fill()
