"""The side panel at the right. It gets every view and redraws what changed."""

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text
from textual import events
from textual.widget import Widget

from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.blocks import Block, Call, SessionView
from ebbtide.tui.view.side_panel import (
    CallEffects,
    FileWork,
    ServerFacts,
    SidePanelState,
    effects_of_calls,
    file_at,
    merge_effects,
    side_lines,
    side_of,
)


class SidePanel(Widget):
    """Shown if the screen is wide enough; otherwise it does no work."""

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
    """The screen's style sheet decides on the width."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="empty")
        self._side = SidePanelState()
        self._past: tuple[Block, ...] = ()
        self._before = CallEffects()
        """The effects of the turns in `_past`."""
        self._ended: tuple[str, ...] = ()
        """The finished calls of the turn at the last update."""
        self._now = CallEffects()
        self._counted: tuple[FileWork, ...] | None = None
        """The files at the last count; None if not counted."""
        self._in_count: frozenset[str] = frozenset()
        """The finished calls of the turn at the last count."""
        self._others: tuple[tuple[ServerFacts, ...], int] = (), 0

    def count(self, files: "tuple[FileWork, ...] | None", calls: frozenset[str], view: SessionView) -> None:
        """Set the current state of the changed files, including the turn's; None if unknown."""
        self._counted, self._in_count, self._ended = files, calls, ("",)
        self.show(view, *self._others)

    def show(self, view: SessionView, servers: tuple[ServerFacts, ...], waiting: int) -> None:
        if not self.display and not self.has_class("empty"):
            return
        if view.past is not self._past:
            self._past, self._before = view.past, effects_of_calls(view.past)
        self._others = servers, waiting
        ended = tuple(block.call_id for block in view.turn if isinstance(block, Call) and block.status == "done")
        if ended != self._ended:
            self._ended, self._now = ended, self._done_since(view.turn)
        before = self._before if self._counted is None else replace(self._before, files=self._counted)
        side = side_of(view, merge_effects(before, self._now), servers, waiting)
        if side != self._side:
            self._side = side
            self.set_class(side.is_empty, "empty")
            self.refresh()

    def _done_since(self, turn: Sequence[Block]) -> CallEffects:
        since = [block for block in turn if not (isinstance(block, Call) and block.call_id in self._in_count)]
        return replace(effects_of_calls(turn), files=effects_of_calls(since).files)

    @property
    def lines(self) -> tuple[Line, ...]:
        return side_lines(self._side, self.content_size.width)

    def render(self) -> Text:
        return clipped_text(self.lines, palette_of(self.app.theme_variables))

    async def on_click(self, event: events.Click) -> None:
        """A click on a file opens the session's changes at that file."""
        name = file_at(self._side, self.lines, event.y - self.content_region.y + self.region.y)
        if name is not None:
            await self.run_action(f"app.command('files', {name!r})")
