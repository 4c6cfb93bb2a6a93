"""The status line at the bottom."""

from rich.text import Text
from textual.widget import Widget

from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.blocks import SessionView
from ebbtide.tui.view.status import StatusLineState, status_line

BROWSING_KEY_HINTS = "Up, Down move  Enter open  y copy  Esc back"
"""Key hints while browsing the transcript."""


class StatusBar(Widget):
    """The activity on the left and numbers on the right. In a narrow window, numbers are dropped first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._state = StatusLineState(SessionView())

    def on_mount(self) -> None:
        self.watch(self.screen, "focused", self._handle_focus_change, init=False)

    def _handle_focus_change(self) -> None:
        """Redraw because the focus has changed. Key hints depend on it."""
        self.refresh()

    def show(self, state: StatusLineState) -> None:
        if state != self._state:
            self._state = state
            self.refresh()

    def render(self) -> Text:
        key_hints = (
            BROWSING_KEY_HINTS if self.screen.focused is not None and self.screen.focused.id == "transcript" else ""
        )
        text = clipped_text(
            [status_line(self._state, self.size.width, key_hints)], get_palette(self.app.theme_variables)
        )
        text.truncate(max(1, self.size.width), overflow="ellipsis")
        return text
