"""Draws an app on the terminal with as little output as possible: unchanged cells are not written, and outdated frames
are skipped."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from textual._ansi_sequences import SYNC_END, SYNC_START  # marks of the start and end of a frame
from textual._compositor import ChopsUpdate, LayoutUpdate  # the updates that an app draws
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip

from ebbtide.tui.terminal.cells import BLANK_CELL, CellStyle, CellWriter, Row, put_segments


def erases_in_color(environment: Mapping[str, str]) -> bool:
    """Whether erased cells take the current background colour. Some multiplexers do not support this."""
    return environment.get("TERM", "").startswith(
        ("xterm", "alacritty", "kitty", "foot", "wezterm", "ghostty", "linux")
    )


class Display:
    """The cells that the app wants and the cells that the terminal shows. Nothing is written while the terminal is
    busy; afterwards it gets the latest frame."""

    def __init__(self, write: Callable[[str], object], schedule_draw: Callable[[], object]) -> None:
        """`write` writes to the terminal, which calls `mark_idle` when it is done. `schedule_draw` makes the app's
        thread call `draw`; it may be called from any thread."""
        self._write = write
        self._schedule_draw = schedule_draw
        self._erases_in_color = erases_in_color(os.environ)
        self._target_rows: list[Row] = []
        self._strips: list[dict[int, Strip | None]] = []
        """The strips of each line by column. None if a strip is unknown or only partly drawn."""
        self._screen_rows: list[Row | None] = []
        """The rows that the terminal shows; None if unknown."""
        self._changed_rows = set[int]()
        self._cursor = (0, 0)
        self._terminal_cursor: tuple[int, int] | None = None
        self._terminal_style: CellStyle | None = None
        self._is_synchronized = False
        self._is_busy = False
        self._is_frame_pending = False
        """Whether a frame is waiting because the terminal was busy."""
        self._is_invalid = False

    def begin(self) -> None:
        """Start drawing, at startup or after a suspension, now that the app controls the terminal."""
        self._is_invalid, self._is_busy = True, False

    def invalidate(self) -> None:
        """Redraw everything with the next frame, after output by another program or a resize. Thread-safe."""
        self._is_invalid = True

    def mark_idle(self) -> None:
        """Record that the terminal has accepted all output."""
        self._is_busy = False
        if self._is_frame_pending:
            self._schedule_draw()

    def show(
        self, update: LayoutUpdate | ChopsUpdate, cursor: tuple[int, int], colors: ColorSystem, *, is_synchronized: bool
    ) -> None:
        """Show an update and place the cursor. `is_synchronized`: whether the terminal supports synchronised output."""
        self._cursor, self._is_synchronized = cursor, is_synchronized
        if isinstance(update, LayoutUpdate):
            self._apply_layout(update, colors)
        else:
            self._apply_chops(update, colors)
        self.draw()

    def draw(self) -> None:
        """Write the changes, now or once the terminal is idle."""
        self._is_frame_pending = True  # set first, because another thread may mark the terminal idle before the check
        if self._is_busy:
            return
        self._is_frame_pending = False
        if self._is_invalid:
            self._is_invalid, self._terminal_cursor, self._terminal_style = False, None, None
            self._screen_rows = [None] * len(self._target_rows)
            self._changed_rows = set(range(len(self._target_rows)))
        writer = CellWriter(self._terminal_cursor, self._terminal_style, erases_in_color=self._erases_in_color)
        writer.write_changes(self._screen_rows, self._target_rows, sorted(self._changed_rows))
        self._changed_rows.clear()
        text = writer.end(self._cursor)
        self._terminal_cursor, self._terminal_style = writer.cursor, writer.style
        if text:
            self._is_busy = True
            self._write(f"{SYNC_START}{text}{SYNC_END}" if self._is_synchronized else text)

    def _apply_layout(self, update: LayoutUpdate, colors: ColorSystem) -> None:
        left, top, width, height = update.region
        if (len(self._target_rows[0]) if self._target_rows else 0, len(self._target_rows)) != (
            left + width,
            top + height,
        ):
            self._target_rows = [[BLANK_CELL] * (left + width) for _ in range(top + height)]
            self._strips = [{} for _ in self._target_rows]
            self._is_invalid = True
        for y, strips in enumerate(update.strips, top):
            x, line_strips = left, dict[int, Strip | None]()
            for strip in strips:
                line_strips[x] = strip
                x += strip.cell_length
            if line_strips != self._strips[y]:
                self._put_strips(y, line_strips.items(), colors)
                self._strips[y] = line_strips

    def _apply_chops(self, update: ChopsUpdate, colors: ColorSystem) -> None:
        for y, span_start, span_end in update.spans:
            if y >= len(self._target_rows):
                continue  # the size has changed: a full update will follow
            line = update.chops[y]
            if line.keys() != self._strips[y].keys():
                self._strips[y] = dict.fromkeys(line)
            drawn_strips, new_strips = self._strips[y], dict[int, Strip]()
            for end, (x, strip) in zip(update.chop_ends[y], line.items(), strict=False):
                if strip is None or x > span_end or end <= span_start:
                    continue
                is_complete = x >= span_start and end <= span_end
                if not is_complete:
                    new_strips[x] = strip.crop(0, min(end, span_end) - x)
                elif drawn_strips[x] != strip:
                    new_strips[x] = strip
                drawn_strips[x] = strip if is_complete else None
            self._put_strips(y, new_strips.items(), colors)

    def _put_strips(self, y: int, strips: Iterable[tuple[int, Strip | None]], colors: ColorSystem) -> None:
        """Put strips into a target row, each at its column."""
        row = self._target_rows[y].copy()
        for x, strip in strips:
            put_segments(row, x, strip or (), colors)
        self._target_rows[y] = row
        self._changed_rows.add(y)


class DisplayApp(App[Any]):
    """An app that writes only what has changed, if its driver has a `display`. Ctrl-L redraws everything."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+l", "repaint", show=False, priority=True)]

    @property
    def _driver_display(self) -> Display | None:
        return getattr(self._driver, "display", None)

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        display = self._driver_display
        if display is None or self._batch_count or not isinstance(renderable, LayoutUpdate | ChopsUpdate):
            super()._display(screen, renderable)
            return
        try:
            if self._running and not self._closed:
                cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
                display.show(renderable, cursor, _colors(self.console), is_synchronized=self._sync_available)
        except Exception as error:  # noqa: BLE001  # as in Textual, an error while drawing ends the app
            self._handle_exception(error)
        finally:
            self.post_display_hook()

    def action_repaint(self) -> None:
        """Repaint the whole screen after output by another program or a resize."""
        if self._driver_display is not None:
            self._driver_display.invalidate()
        if (query_size := getattr(self._driver, "query_size", None)) is not None:
            query_size()
        self.screen.refresh()


def _colors(console: Console) -> ColorSystem:
    return console._color_system or ColorSystem.TRUECOLOR  # private, but Textual's strips also use it
