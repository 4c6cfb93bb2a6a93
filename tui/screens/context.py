"""The context screen: what fills the window, the actions on it with their prices, and the usage of each request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

from ebbtide.agent.context.view_edits import EditRequest
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import Act
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.view_edits import (
    Proposal,
    carry_out,
    carry_out_bring,
    carry_out_undo,
    propose,
    propose_bring,
    propose_undo,
)
from ebbtide.tui.text.numbers import tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, Span, TextStyle
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.context import recall_lines, rewrite_text
from ebbtide.tui.view.context_tree import (
    ComponentRow,
    ComponentTable,
    Order,
    component_line,
    component_table,
    head_line,
    ink_of,
    stacked_bar,
)
from ebbtide.tui.view.timeline import columns_of, figures, legend, plot, rewrites_in
from ebbtide.tui.widgets.field import Field
from ebbtide.tui.widgets.keyline import KeyLine
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.pages import Pages

KEYS = (
    "p pin  d drop from view, or keep a tool out  o show its ends  s summarise  S up to here  b bring back  u undo  "
    "Enter opens  t size  / filter  Left, Right requests  Esc closes"
)
KEYS_OPEN = "Up, Down, PgUp, PgDn read  Esc goes back to the list"
KEYS_SURE = "Enter does it  Esc cancels"
ACTS: dict[str, Act] = {
    "p": "pin",
    "d": "evict",
    "e": "evict",
    "o": "offload",
    "s": "summarise",
    "S": "summarise_before",
}

OPEN_ITEM_KEYS = ("enter", "up", "down", "pageup", "pagedown")
"""Keys with a meaning while an item is open."""
OFFER_KEYS = ("enter", "escape", "left", "right")
"""Keys that keep or answer an offer; any other key withdraws it."""
MIN_PLOT_ROWS, MIN_HIGH_PLOT_ROWS = 16, 32
"""Minimum screen heights for a plot, and for a taller one."""
_MARKER_WIDTH = 2
"""Cells before a row's name, for its colour in the bar."""


class ContextScreen(TypeaheadGuard[None]):
    """Acts on the controller's session; returns nothing."""

    CSS = """
    ContextScreen > * { width: 100%; padding: 0 1; }
    ContextScreen #what-it-is, ContextScreen #columns, ContextScreen #requests, ContextScreen #told { height: auto; }
    ContextScreen #listed { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $background; }
    ContextScreen #looked-for { height: 1; border: none; background: $surface; display: none; }
    ContextScreen #columns, ContextScreen #requests { text-wrap: nowrap; text-overflow: ellipsis; }
    ContextScreen Pages { height: 1fr; display: none; }
    """
    AUTO_FOCUS = "#listed"
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, controller: SessionController, components: ComponentTable) -> None:
        super().__init__()
        self._controller = controller
        self._components = components
        self._order: Order = "order"
        self._rows = components.rows()
        self._point: int | None = None
        """The selected column of the plot."""
        self._sure: Callable[[], Awaitable[str]] | None = None
        """What Enter confirms, as offered by the last message. Only `show_message` sets it."""
        self._is_idle = True
        """Whether the last request is finished."""

    def compose(self) -> ComposeResult:
        yield Static(id="what-it-is", markup=False)
        yield Static(id="columns", markup=False)
        yield Listing(id="listed")
        yield Field(placeholder="type to filter", id="looked-for", select_on_focus=False, compact=True)
        if self._controller.session is not None:
            yield Pages()
        yield Static(id="requests", markup=False)
        yield Static(id="told", markup=False)
        yield KeyLine(KEYS, id="keys")

    def on_mount(self) -> None:
        self._draw()
        self._fill()
        self.show_message("")

    def on_resize(self) -> None:
        self._draw()

    @property
    def is_asking(self) -> bool:
        return self._sure is not None

    def could_answer(self, key: events.Key) -> bool:
        return self.is_asking and key.key == "enter"

    @property
    def settled(self) -> bool:
        """Whether the result of the last request is on the screen."""
        return self._is_idle and all(pages.settled or not pages.display for pages in self.query(Pages))

    # What is shown

    def _draw(self) -> None:
        """Draw everything but the list."""
        overview, width = self._components.overview, max(self.size.width - 2, 1)
        used, room = overview.used_tokens, max(overview.effective, 1)
        usable = f"{tokens(overview.effective)} usable, {used / room:.0%}"
        free = f"  {tokens(max(overview.effective - used, 0))} free"
        head = f"  window {tokens(overview.window.tokens)}  {overview.model}"
        ink: TextStyle = "warn" if used > 0.95 * room else "text"
        lines: list[Line] = [
            (("Context", "strong"), (f"  {tokens(used)} of {usable}", ink), (free, ink), (sanitised_line(head), "dim"))
        ]
        if self.size.height >= MIN_PLOT_ROWS:
            room_around: list[Line] = [()] if self.size.height >= MIN_HIGH_PLOT_ROWS else []
            lines += [*room_around, stacked_bar(self._components, width), *room_around]
            lines += recall_lines(overview.recalls)
        self._update_static("what-it-is", lines)
        named = head_line(self._table - _MARKER_WIDTH, self._components.columns)
        columns: list[Line] = [((" " * _MARKER_WIDTH, "dim"), *named)]
        self._update_static("columns", columns if self.size.height >= MIN_PLOT_ROWS and not self._is_open else [])
        self._update_static(
            "requests", self._plot(width) if self.size.height >= MIN_PLOT_ROWS and not self._is_open else []
        )
        self._name_keys()

    def _name_keys(self) -> None:
        keys = KEYS_SURE if self._sure is not None else KEYS_OPEN if self._is_open else KEYS
        self.query_one(KeyLine).show(keys)

    def _plot(self, width: int) -> list[Line]:
        columns = columns_of(self._components.overview.requests, rewrites_in(self._components.overview), width)
        if not columns:
            return [(("Requests ", "strong"), (" none yet", "dim"))]
        if self._point is None or self._point >= len(columns):
            self._point = len(columns) - 1
        top = max(column.size for column in columns)
        height = 4 if self.size.height < MIN_HIGH_PLOT_ROWS else min(self.size.height // 4, 3 + len(columns) // 2)
        pointed = columns[self._point]
        told: list[Line] = [((figures(pointed), "text"),)]
        told += [((f"  before it: {rewrite_text(one)}", "dim"),) for one in pointed.rewrites[-1:]]
        return [legend(top, width, columns), *plot(columns, height, self._point, width=width), *told]

    def _update_static(self, id: str, lines: list[Line]) -> None:
        widget = self.query_one(f"#{id}", Static)
        widget.display = bool(lines)
        widget.update(clipped_text(lines, palette_of(self.app.theme_variables)))

    def show_message(
        self, text: str, *, is_warning: bool = False, offers: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """Show one line about an action, replacing the previous line and its offer. `offers`: what Enter does while
        it is shown."""
        self._sure = offers
        self.await_painting()
        self._update_static("told", [((sanitised_line(text), "warn" if is_warning else "strong"),)] if text else [])
        self._name_keys()

    def _fill(self) -> None:
        """Rebuild the rows, keeping the mark."""
        marked, listing = self._marked_row, self.query_one(Listing)
        components = self._components
        self._rows = rows = components.rows(self._order, self.query_one("#looked-for", Input).value)
        effective, palette = components.overview.effective, palette_of(self.app.theme_variables)

        def paint(index: int, width: int) -> Text:  # the screen may have another width by then
            row = rows[index]
            mark: Span = ("■ ", ink_of(row)) if row.level == 0 else ("  ", "dim")
            room = min(width, self._table) - _MARKER_WIDTH
            return clipped_text([(mark, *component_line(row, room, effective, components.columns))], palette)

        listing.show(len(rows), paint)
        if marked is not None:
            listing.move(next((at for at, row in enumerate(rows) if _same(row, marked)), 0))

    @property
    def _table(self) -> int:
        """Width of the list: its longest name, leaving one column for a scrollbar."""
        return min(self.size.width - 3, self._components.width + _MARKER_WIDTH)

    @property
    def _marked_row(self) -> ComponentRow | None:
        index = self.query_one(Listing).marked
        return self._rows[index] if index < len(self._rows) else None

    @property
    def _is_open(self) -> bool:
        return any(pages.display for pages in self.query(Pages))

    # What the keys do

    def on_key(self, event: events.Key) -> None:
        if self.query_one("#looked-for", Input).has_focus and event.key not in ("escape", "enter", "up", "down"):
            return
        if self._press(event.key if not event.is_printable else event.character or event.key):
            event.stop()
            event.prevent_default()

    def _press(self, key: str) -> bool:
        listing = self.query_one(Listing)
        if self._sure is not None and key not in OFFER_KEYS:
            self.show_message("")
        match key:
            case "escape":
                self._back()
            case _ if not self._is_idle:
                pass  # what was asked for is not there yet: nobody can have meant what it says
            case _ if self._is_open and key not in OPEN_ITEM_KEYS:
                return False
            case "enter":
                self._enter()
            case "up" | "down":
                step = -1 if key == "up" else 1
                self._turn(step) if self._is_open else listing.move(step)
            case "pageup" | "pagedown":
                step = -1 if key == "pageup" else 1
                height = max(listing.size.height - 1, 1)
                self._turn(step * 10) if self._is_open else listing.move(step * height)
            case "home" | "end":
                listing.move((-1 if key == "home" else 1) * len(self._rows))
            case "left" | "right":
                self._walk(-1 if key == "left" else 1)
            case "t":
                self._order = "tokens" if self._order == "order" else "order"
                self._fill()
                self.show_message("the largest first" if self._order == "tokens" else "in the order of a request")
            case "/":
                box = self.query_one("#looked-for", Input)
                box.display = True
                box.focus()
            case "u":
                self._ask(lambda: propose_undo(self._controller), lambda: carry_out_undo(self._controller))
            case "b":
                self._bring()
            case "d" if self._marked_row is not None and self._marked_row.is_tool:
                self._steer("offer" if self._marked_row.state == "kept out" else "defer")
            case "p" if self._marked_row is not None and self._marked_row.is_pinned:
                self._steer("unpin")
            case _ if key in ACTS:
                self._steer(ACTS[key])
            case _:
                return False
        return True

    def _back(self) -> None:
        box = self.query_one("#looked-for", Input)
        if not self._is_idle:
            self._controller.interrupt()
        elif self._sure is not None:
            self.show_message("")
        elif self._is_open:
            self._open(None)
        elif box.display:
            box.value, box.display = "", False
            self._fill()
            self.query_one(Listing).focus()
        else:
            self.dismiss(None)

    def _enter(self) -> None:
        if (work := self._sure) is not None:
            self._start(lambda: self._do(work))
        elif self.query_one("#looked-for", Input).has_focus:
            self.query_one(Listing).focus()
        elif self._marked_row is not None and not self._is_open:
            if self._marked_row.ref:
                self._open(self._marked_row)
            else:
                self.show_message(
                    f"`{self._marked_row.name}` is a total, or neither output nor message: there is nothing to open"
                )

    def _open(self, row: ComponentRow | None) -> None:
        """Show the content of a row instead of the list, or the list again."""
        for pages in self.query(Pages):
            pages.display = row is not None
            self.query_one(Listing).display = row is None
            box = self.query_one("#looked-for", Input)
            box.display = row is None and bool(box.value)
            self.set_focus(None)
            if row is not None and self._controller.session is not None:
                pages.show(self._controller.session.listing, row.ref)
        if row is None:
            self.query_one(Listing).focus()
        self._draw()

    def _turn(self, lines: int) -> None:
        for pages in self.query(Pages):
            pages.turn(lines)

    def _walk(self, step: int) -> None:
        width = max(self.size.width - 2, 1)
        count = len(columns_of(self._components.overview.requests, rewrites_in(self._components.overview), width))
        if count and self._point is not None:
            self._point = max(0, min(self._point + step, count - 1))
            self._draw()

    def _bring(self) -> None:
        row = self._marked_row
        if row is None or not row.ref or row.is_tool:
            self.show_message("select what left the view, or is shown in part, to bring it back")
        elif row.state == "visible":
            self.show_message(f"the model sees `{row.ref}` already: nothing has to be brought back")
        else:
            self._ask(
                lambda: propose_bring(self._controller, row.ref), lambda: carry_out_bring(self._controller, row.ref)
            )

    def _steer(self, act: Act) -> None:
        row = self._marked_row
        if row is None or not row.key or (row.is_tool != (act in ("defer", "offer"))):
            what = "a tool or a server" if act in ("defer", "offer") else "an output or a message"
            self.show_message(f"select {what} for that")
            return
        wish = EditRequest(act, row.key)
        self._ask(lambda: propose(self._controller, wish), lambda: carry_out(self._controller, wish))

    def _ask(self, look: Callable[[], Awaitable[Proposal]], work: Callable[[], Awaitable[str]]) -> None:
        """Show what would be done and its price; Enter then confirms."""

        async def ask() -> None:
            found = await look()
            self.show_message(found.text, offers=work if found.is_possible else None)

        self._start(ask)

    async def _do(self, work: Callable[[], Awaitable[str]]) -> None:
        self.show_message("working …")
        told = await work()
        if self._controller.session is not None:
            self._components = await components_here(self._controller, self._controller.session.id)
        self.show_message(told)
        if self.is_attached:
            self._point = None
            self._fill()

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run it as the app's work, so that it finishes even if the screen closes; one at a time."""
        if not self._is_idle:
            return

        async def run() -> None:
            try:
                await work()
            except AgentError as error:
                self.show_message(str(error), is_warning=True)
            finally:
                self._is_idle = True
                if self.is_attached:
                    self._draw()

        self._is_idle = False
        self.app.run_worker(run(), group="aside")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._fill()


async def components_here(controller: SessionController, session: str) -> ComponentTable:
    """The components of a session's context. Raises `AgentError`."""
    return await asyncio.to_thread(component_table, await controller.sessions.overview(session))


def _same(row: ComponentRow, other: ComponentRow) -> bool:
    return (row.key, row.level) == (other.key, other.level) and (bool(row.key) or row.name == other.name)
