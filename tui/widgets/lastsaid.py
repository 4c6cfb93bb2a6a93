"""What tells of one session: its names, and the end of what was said in it."""

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from agent.errors import AgentError
from agent.records.session_lookup import SessionInfo
from tui.session.ports import Library
from tui.text.sanitise import visible_line
from tui.text.styles import painted, palette_of
from tui.view.sessions import about_lines

LAST_SAID = 12
"""Messages of the session."""


class LastSaid(VerticalScroll, can_focus=False):
    """Shows what it is told to read, from its beginning. How its lines break is said by the screen it is on."""

    def __init__(self, library: Library, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._library = library

    def compose(self) -> ComposeResult:
        yield Static(id="said")

    def say(self, text: str) -> None:
        """Shows this in place of a session."""
        self._show(Text(text, palette_of(self.app.theme_variables).dim))

    async def read(self, info: SessionInfo, excerpt: str) -> None:
        """Shows a session. `excerpt`: why it was found."""
        palette = palette_of(self.app.theme_variables)
        try:
            messages = await self._library.last_said(info.id, LAST_SAID)
        except AgentError as error:
            self._show(Text(visible_line(str(error)), palette.warn))
            return
        said = painted(about_lines(info, excerpt, messages), palette)
        said.no_wrap, said.overflow = False, "fold"
        self._show(said)
        self.call_after_refresh(self.scroll_to, y=0, animate=False)

    def page(self, direction: int) -> None:
        """One screen up (-1) or down (1), less a line to hold on to."""
        self.scroll_relative(y=direction * max(1, self.size.height - 1), animate=False)

    def _show(self, text: Text) -> None:
        self.query_one("#said", Static).update(text)
