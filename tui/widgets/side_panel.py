"""The side panel on the right. It receives every view and redraws itself when its content changes."""

from collections.abc import Sequence
from dataclasses import replace

from rich.text import Text
from textual import events
from textual.widget import Widget

from ebbtide.tui.text.spans import Line
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.blocks import Block, Call, SessionView
from ebbtide.tui.view.side_panel import (
    CallEffects,
    FileLineCounts,
    ServerEntry,
    SidePanelState,
    build_side_panel_state,
    collect_call_effects,
    file_at_line,
    merge_effects,
    side_panel_lines,
)


class SidePanel(Widget):
    """The side panel. It is shown if the screen is wide enough, and does nothing while it is hidden."""

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
    """The screen's style sheet shows or hides the panel by width."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="empty")
        self._state = SidePanelState()
        self._past_blocks: tuple[Block, ...] = ()
        self._past_effects = CallEffects()
        """What the turns in `_past_blocks` did."""
        self._finished_call_ids: tuple[str, ...] = ()
        """The turn's calls that had finished at the last update."""
        self._turn_effects = CallEffects()
        self._counted_files: tuple[FileLineCounts, ...] | None = None
        """The changed files as of the last count; None if they were never counted."""
        self._counted_call_ids: frozenset[str] = frozenset()
        """The turn's calls whose changes were included in the last count."""
        self._servers_and_queue: tuple[tuple[ServerEntry, ...], int] = (), 0

    def set_counted_files(
        self, files: "tuple[FileLineCounts, ...] | None", call_ids: frozenset[str], view: SessionView
    ) -> None:
        """Set the files changed in the session, or None if unknown. `call_ids`: the finished calls whose changes are
        included."""
        self._counted_files, self._counted_call_ids, self._finished_call_ids = files, call_ids, ("",)
        self.show(view, *self._servers_and_queue)

    def show(self, view: SessionView, servers: tuple[ServerEntry, ...], queued_count: int) -> None:
        if not self.display and not self.has_class("empty"):
            return
        if view.past_blocks is not self._past_blocks:
            self._past_blocks, self._past_effects = view.past_blocks, collect_call_effects(view.past_blocks)
        self._servers_and_queue = servers, queued_count
        finished_call_ids = tuple(
            block.call_id for block in view.turn_blocks if isinstance(block, Call) and block.status == "done"
        )
        if finished_call_ids != self._finished_call_ids:
            self._finished_call_ids, self._turn_effects = finished_call_ids, self._effects_since_count(view.turn_blocks)
        past_effects = (
            self._past_effects
            if self._counted_files is None
            else replace(self._past_effects, files=self._counted_files)
        )
        state = build_side_panel_state(view, merge_effects(past_effects, self._turn_effects), servers, queued_count)
        if state != self._state:
            self._state = state
            self.set_class(state.is_empty, "empty")
            self.refresh()

    def _effects_since_count(self, turn_blocks: Sequence[Block]) -> CallEffects:
        uncounted_blocks = [
            block for block in turn_blocks if not (isinstance(block, Call) and block.call_id in self._counted_call_ids)
        ]
        return replace(collect_call_effects(turn_blocks), files=collect_call_effects(uncounted_blocks).files)

    @property
    def lines(self) -> tuple[Line, ...]:
        return side_panel_lines(self._state, self.content_size.width)

    def render(self) -> Text:
        return clipped_text(self.lines, get_palette(self.app.theme_variables))

    async def on_click(self, event: events.Click) -> None:
        """Open the session's changes at the file that was clicked."""
        name = file_at_line(self._state, self.lines, event.y - self.content_region.y + self.region.y)
        if name is not None:
            await self.run_action(f"app.command('files', {name!r})")
