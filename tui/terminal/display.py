"""Draws an app on the terminal with minimal output: unchanged cells are not written, and outdated frames are
skipped."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from textual._ansi_sequences import SYNC_END, SYNC_START  # told by which a picture begins and ends
from textual._compositor import ChopsUpdate, LayoutUpdate  # what an app draws
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip

from ebbtide.tui.terminal.cells import BLANK, CellStyle, CellWriter, Row, put_segments


def erases_in_color(environment: Mapping[str, str]) -> bool:
    """Whether erased cells get the current background; not in every multiplexer."""
    return environment.get("TERM", "").startswith(
        ("xterm", "alacritty", "kitty", "foot", "wezterm", "ghostty", "linux")
    )


class Display:
    """The cells of a terminal, wanted and shown. While the terminal is busy nothing is written; then it gets the
    latest frame."""

    def __init__(self, write: Callable[[str], object], draw_soon: Callable[[], object]) -> None:
        """`write`: to the terminal, which calls `mark_idle` when done. `draw_soon` may be called from any thread,
        and has `draw` called in the app's."""
        self._write = write
        self._draw_soon = draw_soon
        self._erases_in_color = erases_in_color(os.environ)
        self._wanted: list[Row] = []
        self._strips: list[dict[int, Strip | None]] = []
        """The strips of each line by column; None if the line was not drawn as a whole."""
        self._shown: list[Row | None] = []
        """None: unknown."""
        self._changed = set[int]()
        self._cursor = (0, 0)
        self._at: tuple[int, int] | None = None
        self._look: CellStyle | None = None
        self._is_synchronized = False
        self._is_busy = False
        self._is_due = False
        """Whether a frame is pending because the terminal was busy."""
        self._is_forgotten = False

    def begin(self) -> None:
        """The app has the terminal, for the first time or again."""
        self._is_forgotten, self._is_busy = True, False

    def forget(self) -> None:
        """Redraw everything with the next frame, after foreign output or a resize. Thread-safe."""
        self._is_forgotten = True

    def mark_idle(self) -> None:
        """The terminal has taken all output."""
        self._is_busy = False
        if self._is_due:
            self._draw_soon()

    def show(
        self, update: LayoutUpdate | ChopsUpdate, cursor: tuple[int, int], colors: ColorSystem, *, synchronized: bool
    ) -> None:
        """Show what was drawn, with the cursor at its place. `synchronized`: the terminal supports synchronised
        output."""
        self._cursor, self._is_synchronized = cursor, synchronized
        if isinstance(update, LayoutUpdate):
            self._take_all(update, colors)
        else:
            self._take_some(update, colors)
        self.draw()

    def draw(self) -> None:
        """Write the changes now, or when the terminal is idle."""
        self._is_due = True  # before it is asked whether it is busy: another thread says when it is not any more
        if self._is_busy:
            return
        self._is_due = False
        if self._is_forgotten:
            self._is_forgotten, self._at, self._look = False, None, None
            self._shown = [None] * len(self._wanted)
            self._changed = set(range(len(self._wanted)))
        changes = CellWriter(self._at, self._look, erases_in_color=self._erases_in_color)
        changes.write_changes(self._shown, self._wanted, sorted(self._changed))
        self._changed.clear()
        text = changes.end(self._cursor)
        self._at, self._look = changes.cursor, changes.look
        if text:
            self._is_busy = True
            self._write(f"{SYNC_START}{text}{SYNC_END}" if self._is_synchronized else text)

    def _take_all(self, update: LayoutUpdate, colors: ColorSystem) -> None:
        left, top, width, height = update.region
        if (len(self._wanted[0]) if self._wanted else 0, len(self._wanted)) != (left + width, top + height):
            self._wanted = [[BLANK] * (left + width) for _ in range(top + height)]
            self._strips = [{} for _ in self._wanted]
            self._is_forgotten = True
        for y, strips in enumerate(update.strips, top):
            x, line = left, dict[int, Strip | None]()
            for strip in strips:
                line[x] = strip
                x += strip.cell_length
            if line != self._strips[y]:
                self._put_strips(y, line.items(), colors)
                self._strips[y] = line

    def _take_some(self, update: ChopsUpdate, colors: ColorSystem) -> None:
        for y, first, last in update.spans:
            if y >= len(self._wanted):
                continue  # all of another size is yet to come
            line = update.chops[y]
            if line.keys() != self._strips[y].keys():
                self._strips[y] = dict.fromkeys(line)
            known, new = self._strips[y], dict[int, Strip]()
            for end, (x, strip) in zip(update.chop_ends[y], line.items(), strict=False):
                if strip is None or x > last or end <= first:
                    continue
                is_whole = x >= first and end <= last
                if not is_whole:
                    new[x] = strip.crop(0, min(end, last) - x)
                elif known[x] != strip:
                    new[x] = strip
                known[x] = strip if is_whole else None
            self._put_strips(y, new.items(), colors)

    def _put_strips(self, y: int, strips: Iterable[tuple[int, Strip | None]], colors: ColorSystem) -> None:
        """Put strips into a line at their columns."""
        row = self._wanted[y].copy()
        for x, strip in strips:
            put_segments(row, x, strip or (), colors)
        self._wanted[y] = row
        self._changed.add(y)


class DisplayApp(App[Any]):
    """An app that writes only changes, if the driver has a `display`. Ctrl-L redraws everything."""

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
                display.show(renderable, cursor, _colors(self.console), synchronized=self._sync_available)
        except Exception as error:  # noqa: BLE001  # as Textual does: what goes wrong while drawing ends the app
            self._handle_exception(error)
        finally:
            self.post_display_hook()

    def action_repaint(self) -> None:
        """Repaint the whole screen after foreign output or a resize."""
        if self._driver_display is not None:
            self._driver_display.forget()
        if (ask_size := getattr(self._driver, "ask_size", None)) is not None:
            ask_size()
        self.screen.refresh()


def _colors(console: Console) -> ColorSystem:
    return console._color_system or ColorSystem.TRUECOLOR  # as Textual's strips ask for it
