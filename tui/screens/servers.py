"""The servers of the session: how each is, what it offers, and what can be done with it. It runs none of them."""

from collections.abc import Awaitable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.mcp.status import ServerControl, ServerStatus
from tui.text.inks import Line
from tui.text.sanitise import visible_line
from tui.text.styles import painted, palette_of
from tui.view.servers import lines_about, log_lines, server_line, summary
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing

KEYS = "Space on, off  r restarts  l logs in  o shows its log  PgUp, PgDn  Esc closes"
LOGGED = 200
"""Lines of a log."""


class ServersScreen(ModalScreen[None]):
    """Shows every change at once, as long as it is open."""

    AUTO_FOCUS = "#servers"
    CSS = """
    ServersScreen #dialog.high > #headline { margin-bottom: 1; }
    ServersScreen #about { height: 1fr; max-height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("space", "switch", show=False),
        Binding("r", "restart", show=False),
        Binding("l", "login", show=False),
        Binding("y", "copy", show=False),
        Binding("o", "log", show=False),
    ]

    def __init__(self, board: ServerControl) -> None:
        super().__init__()
        self._board = board
        self._servers: Sequence[ServerStatus] = ()
        self._address = ""
        """Where the user is to log in now."""
        self._is_due = False
        """Whether it is to be drawn anew: many changes that come at once are one."""
        self._shows_log = False

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            yield Listing(id="servers")
            with VerticalScroll(id="about", can_focus=False):
                yield Static(id="said")
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        self._board.watch(self._changed)
        self._show()

    def on_unmount(self) -> None:
        self._board.watch(None)

    def on_listing_moved(self) -> None:
        self._show_marked()

    def action_move(self, step: int) -> None:
        self.query_one(Listing).move(step)

    def action_page(self, step: int) -> None:
        about = self.query_one("#about", VerticalScroll)
        about.scroll_relative(y=step * max(1, about.size.height - 1), animate=False)

    def action_switch(self) -> None:
        if (server := self._marked) is not None:
            self._do(self._board.switch(server.name))

    def action_restart(self) -> None:
        if (server := self._marked) is not None:
            self._do(self._board.restart(server.name))

    def action_login(self) -> None:
        if (server := self._marked) is not None:
            self._do(self._board.login(server.name, self._show_address))

    def action_log(self) -> None:
        self._shows_log = not self._shows_log
        self._show_marked()
        if self._shows_log:
            self.query_one("#about", VerticalScroll).scroll_end(animate=False)

    def action_copy(self) -> None:
        if self._address:
            self.app.copy_to_clipboard(self._address)

    def _show_address(self, url: str) -> None:
        self._address = url
        self._changed()

    @property
    def _marked(self) -> ServerStatus | None:
        index = self.query_one(Listing).marked
        return self._servers[index] if index < len(self._servers) else None

    def _do(self, work: Awaitable[None]) -> None:
        async def done() -> None:
            try:
                await work
            finally:
                self._address = ""
                self._changed()

        self.run_worker(done(), group="servers")

    def _changed(self) -> None:
        if self.is_mounted and not self._is_due:
            self._is_due = True
            self.call_later(self._show)

    def _show(self) -> None:
        self._is_due = False
        palette = palette_of(self.app.theme_variables)
        listing, marked = self.query_one(Listing), self.query_one(Listing).marked
        servers = self._servers = tuple(self._board.servers())
        headline = Text.assemble(("Servers  ", palette.strong), (summary(servers), palette.dim))
        if self._address:
            headline.append(f"\nopen this address to log in (y copies it): {visible_line(self._address)}", palette.warn)
        self.query_one("#headline", Static).update(headline)
        column = max((len(server.name) for server in servers), default=0)
        listing.styles.height = max(1, min(len(servers), 10))
        listing.show(len(servers), lambda index, width: painted([server_line(servers[index], column)], palette))
        listing.move(marked)
        self._show_marked()

    def _show_marked(self) -> None:
        palette, server = palette_of(self.app.theme_variables), self._marked
        if server is None:
            lines = list[Line]()
        elif self._shows_log:
            lines = log_lines(server, self._board.log(server.name, LOGGED))
        else:
            lines = lines_about(server)
        self.query_one("#said", Static).update(painted(lines, palette))
