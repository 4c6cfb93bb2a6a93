"""The panel at the right: what stands beside the conversation. It is told of every view and draws what differs."""

from rich.text import Text
from textual import events
from textual.widget import Widget

from tui.text.inks import Line
from tui.text.styles import painted, palette_of
from tui.view.blocks import Block, Call, SessionView
from tui.view.side import Done, ServerFacts, Side, done_in, file_at, side_lines, side_of, together


class SidePanel(Widget):
    """There where the screen is wide enough; elsewhere it looks at nothing."""

    DEFAULT_CSS = """
    SidePanel {
        dock: right;
        width: 40;
        height: 100%;
        padding: 1 1 0 2;
        border-left: solid $border-blurred;
        background: $background;
        display: none;
    }
    .-wide SidePanel { display: block; }
    SidePanel.empty { display: none; }
    """

    SCOPED_CSS = False
    """How wide the screen is says the screen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="empty")
        self._side = Side()
        self._past: tuple[Block, ...] = ()
        self._before = Done()
        """What the turns in `_past` left."""
        self._ended: tuple[str, ...] = ()
        """The calls of the turn that have ended, when it was looked at last."""
        self._now = Done()

    def show(self, view: SessionView, servers: tuple[ServerFacts, ...], waiting: int) -> None:
        if not self.display and not self.has_class("empty"):
            return
        if view.past is not self._past:
            self._past, self._before = view.past, done_in(view.past)
        ended = tuple(block.call_id for block in view.turn if isinstance(block, Call) and block.status == "done")
        if ended != self._ended:
            self._ended, self._now = ended, done_in(view.turn)
        side = side_of(view, together(self._before, self._now), servers, waiting)
        if side != self._side:
            self._side = side
            self.set_class(side.is_empty, "empty")
            self.refresh()

    @property
    def lines(self) -> tuple[Line, ...]:
        return side_lines(self._side, self.content_size.width)

    def render(self) -> Text:
        return painted(self.lines, palette_of(self.app.theme_variables))

    async def on_click(self, event: events.Click) -> None:
        """A click on a file shows what the session changed, that file first."""
        name = file_at(self._side, self.lines, event.y - self.content_region.y + self.region.y)
        if name is not None:
            await self.run_action(f"app.command('files', {name!r})")
