"""The status line at the bottom."""

from rich.text import Text
from textual.widget import Widget

from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.blocks import SessionView
from ebbtide.tui.view.status import StatusLineState, status_line

WALKING = "Up, Down move  Enter opens  y copies  Esc back"
"""Key hints while browsing the transcript."""


class StatusBar(Widget):
    """Activity on the left, numbers on the right. In a narrow window the right side is cut first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = StatusLineState(SessionView())

    def on_mount(self) -> None:
        self.watch(self.screen, "focused", self._turn_to, init=False)

    def _turn_to(self) -> None:
        """Update the key hints after a focus change."""
        self.refresh()

    def show(self, shown: StatusLineState) -> None:
        if shown != self._shown:
            self._shown = shown
            self.refresh()

    def render(self) -> Text:
        keys = WALKING if self.screen.focused is not None and self.screen.focused.id == "transcript" else ""
        text = clipped_text([status_line(self._shown, self.size.width, keys)], palette_of(self.app.theme_variables))
        text.truncate(max(1, self.size.width), overflow="ellipsis")
        return text
