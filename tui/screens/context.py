"""The context screen: what fills the context window, which actions could change that and what they cost, and the usage
of each request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input, Static

from ebbtide.agent.config.options import ContextStyle
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.view import Act
from ebbtide.tui.screens.style_section import StyleSection
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuard
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.session.view_edits import (
    Proposal,
    act_for_key,
    edit_of_row,
    propose_bring_back,
    propose_edit,
    propose_undo,
    ref_to_bring,
    run_bring_back,
    run_edit,
    run_undo,
)
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, Span
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.component_table import (
    ComponentRow,
    ComponentTable,
    SortOrder,
    build_component_table,
    component_row_line,
    component_style,
    heading_line,
    stacked_bar,
)
from ebbtide.tui.view.context import recall_lines, request_plot, summary_line
from ebbtide.tui.view.timeline import RequestColumn, list_rewrites, request_columns
from ebbtide.tui.widgets.field import Field
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.pages import Pages

CONTEXT_KEY_HINTS = (
    "p pin  d remove / disable tool  o keep head and tail  s summarise  S up to here  b put back  u undo  "
    "Enter open  t sort by size  c change style  / filter  Left, Right requests  Esc close"
)
OPEN_ITEM_KEY_HINTS = "Up, Down, PgUp, PgDn scroll  Esc back to the list"
CONFIRM_KEY_HINTS = "Enter confirm  Esc cancel"
OPEN_ITEM_KEYS = ("enter", "up", "down", "pageup", "pagedown")
"""Keys that do something while an item is open."""
OFFER_KEYS = ("enter", "escape", "left", "right")
"""Keys that accept or decline an offered action, or leave the offer unchanged. Any other key withdraws the offer."""
MIN_PLOT_ROWS, MIN_HIGH_PLOT_ROWS = 16, 32
"""Minimum screen height for a plot, and for a tall plot."""
_MARKER_WIDTH = 2
"""Width of the mark before a row's name. It has the same colour as the component in the bar."""


class ContextScreen(TypeaheadGuard[None]):
    """Shows and edits the context of the controller's session. Closes without a result."""

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

    def __init__(
        self,
        controller: SessionController,
        components: ComponentTable,
        set_style: Callable[[ContextStyle], str] | None = None,
    ) -> None:
        """`set_style`: changes the context style and returns a message; may raise `AgentError`. None if it cannot be
        changed."""
        super().__init__()
        self._style_section = StyleSection(set_style)
        self._controller = controller
        self._components = components
        self._row_order: SortOrder = "order"
        self._rows = components.rows()
        self._selected_column: int | None = None
        """The selected column of the plot."""
        self._offered_action: Callable[[], Awaitable[str]] | None = None
        """The action that the last message offered. Enter runs it. Set only by `show_message`."""
        self._is_idle = True
        """Whether no action is running."""

    def compose(self) -> ComposeResult:
        yield Static(id="what-it-is", markup=False)
        yield Static(id="columns", markup=False)
        yield Listing(id="listed")
        yield Field(placeholder="type to filter", id="looked-for", select_on_focus=False, compact=True)
        if self._controller.session is not None:
            yield Pages()
        yield Static(id="requests", markup=False)
        yield Static(id="told", markup=False)
        yield KeyLine(CONTEXT_KEY_HINTS, id="keys")

    def on_mount(self) -> None:
        self._draw()
        self._rebuild_rows()
        self.show_message("")
        self.run_worker(self._load_style_costs())

    async def _load_style_costs(self) -> None:
        await self._style_section.load(self._controller, self._components.overview)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    @property
    def is_asking(self) -> bool:
        return self._offered_action is not None

    def could_answer(self, key: events.Key) -> bool:
        return self.is_asking and key.key == "enter"

    @property
    def is_settled(self) -> bool:
        """Whether the result of the last action is visible."""
        return (
            self._is_idle
            and self._style_section.is_loaded
            and all(pages.is_settled or not pages.display for pages in self.query(Pages))
        )

    # Display

    def _draw(self) -> None:
        """Draw everything except the list."""
        overview, width = self._components.overview, max(self.size.width - 2, 1)
        lines = [summary_line(overview)]
        if self.size.height >= MIN_PLOT_ROWS:
            blank_lines: list[Line] = [()] if self.size.height >= MIN_HIGH_PLOT_ROWS else []
            lines += [*blank_lines, stacked_bar(self._components, width), *blank_lines]
            lines += self._style_section.lines(self.size.height, self._components.overview.recalls, blank_lines)
            lines += recall_lines(overview.recalls)
        self._update_static("what-it-is", lines)
        heading = heading_line(self._table_width - _MARKER_WIDTH, self._components.columns)
        columns: list[Line] = [((" " * _MARKER_WIDTH, "dim"), *heading)]
        self._update_static("columns", columns if self.size.height >= MIN_PLOT_ROWS and not self._is_open else [])
        self._update_static(
            "requests", self._plot_lines(width) if self.size.height >= MIN_PLOT_ROWS and not self._is_open else []
        )
        self._show_key_hints()

    def _show_key_hints(self) -> None:
        keys = (
            CONFIRM_KEY_HINTS
            if self._offered_action is not None
            else OPEN_ITEM_KEY_HINTS
            if self._is_open
            else CONTEXT_KEY_HINTS
        )
        self.query_one(KeyLine).show(keys)

    def _plot_lines(self, width: int) -> list[Line]:
        columns = self._plot_columns(width)
        if columns and (self._selected_column is None or self._selected_column >= len(columns)):
            self._selected_column = len(columns) - 1
        height = 4 if self.size.height < MIN_HIGH_PLOT_ROWS else min(self.size.height // 4, 3 + len(columns) // 2)
        return request_plot(columns, height, width, self._selected_column or 0)

    def _plot_columns(self, width: int) -> tuple[RequestColumn, ...]:
        overview = self._components.overview
        return request_columns(overview.requests, list_rewrites(overview), width)

    def _update_static(self, widget_id: str, lines: list[Line]) -> None:
        widget = self.query_one(f"#{widget_id}", Static)
        widget.display = bool(lines)
        widget.update(clipped_text(lines, get_palette(self.app.theme_variables)))

    def show_message(
        self, text: str, *, is_warning: bool = False, offered_action: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        """Show one line about an action, replacing the previous line and its offer. `offered_action`: what Enter runs
        as long as the line is shown."""
        self._offered_action = offered_action
        self.restart_guard()
        self._update_static("told", [((sanitise_line(text), "warn" if is_warning else "strong"),)] if text else [])
        self._show_key_hints()

    def _rebuild_rows(self) -> None:
        """Rebuild the rows, keeping the same row marked."""
        previous_row, listing = self._marked_row, self.query_one(Listing)
        components = self._components
        self._rows = rows = components.rows(self._row_order, self.query_one("#looked-for", Input).value)
        window_tokens, palette = components.overview.effective, get_palette(self.app.theme_variables)

        def paint(index: int, width: int) -> Text:  # `width` may be newer than the table
            row = rows[index]
            mark: Span = ("■ ", component_style(row)) if row.level == 0 else ("  ", "dim")
            row_width = min(width, self._table_width) - _MARKER_WIDTH
            return clipped_text(
                [(mark, *component_row_line(row, row_width, window_tokens, components.columns))], palette
            )

        listing.show(len(rows), paint)
        if previous_row is not None:
            listing.move_mark(
                next((row_index for row_index, row in enumerate(rows) if _is_same_row(row, previous_row)), 0)
            )

    @property
    def _table_width(self) -> int:
        """Width of the list: that of its widest line, limited to the screen's width minus margins and scrollbar."""
        return min(self.size.width - 3, self._components.width + _MARKER_WIDTH)

    @property
    def _marked_row(self) -> ComponentRow | None:
        index = self.query_one(Listing).marked_index
        return self._rows[index] if index < len(self._rows) else None

    @property
    def _is_open(self) -> bool:
        return any(pages.display for pages in self.query(Pages))

    # Keys

    def on_key(self, event: events.Key) -> None:
        if self.query_one("#looked-for", Input).has_focus and event.key not in ("escape", "enter", "up", "down"):
            return
        if self._process_key(event.key if not event.is_printable else event.character or event.key):
            event.stop()
            event.prevent_default()

    def _process_key(self, key: str) -> bool:
        listing = self.query_one(Listing)
        if self._offered_action is not None and key not in OFFER_KEYS:
            self.show_message("")
        match key:
            case "escape":
                self._go_back()
            case _ if not self._is_idle:
                pass  # ignored, because the result that the key refers to is not shown yet
            case _ if self._is_open and key not in OPEN_ITEM_KEYS:
                return False
            case "enter":
                self._handle_enter()
            case "up" | "down":
                step = -1 if key == "up" else 1
                self._scroll_content(step) if self._is_open else listing.move_mark(step)
            case "pageup" | "pagedown":
                step = -1 if key == "pageup" else 1
                height = max(listing.size.height - 1, 1)
                self._scroll_content(step * 10) if self._is_open else listing.move_mark(step * height)
            case "home" | "end":
                listing.move_mark((-1 if key == "home" else 1) * len(self._rows))
            case "left" | "right":
                self._select_column(-1 if key == "left" else 1)
            case "t":
                self._row_order = "tokens" if self._row_order == "order" else "order"
                self._rebuild_rows()
                self.show_message("sorted by size" if self._row_order == "tokens" else "in request order")
            case "/":
                filter_field = self.query_one("#looked-for", Input)
                filter_field.display = True
                filter_field.focus()
            case "c":
                message, is_warning = self._style_section.choose_next(self._controller.session)
                self._draw()
                self.show_message(message, is_warning=is_warning)
            case "u":
                self._offer(lambda: propose_undo(self._controller), lambda: run_undo(self._controller))
            case "b":
                self._offer_bring_back()
            case _ if (act := act_for_key(key, self._marked_row)) is not None:
                self._offer_edit(act)
            case _:
                return False
        return True

    def _go_back(self) -> None:
        filter_field = self.query_one("#looked-for", Input)
        if not self._is_idle:
            self._controller.interrupt()
        elif self._offered_action is not None:
            self.show_message("")
        elif self._is_open:
            self._show_content(None)
        elif filter_field.display:
            filter_field.value, filter_field.display = "", False
            self._rebuild_rows()
            self.query_one(Listing).focus()
        else:
            self.dismiss(None)

    def _handle_enter(self) -> None:
        if (work := self._offered_action) is not None:
            self._start_work(lambda: self._run_offered_action(work))
        elif self.query_one("#looked-for", Input).has_focus:
            self.query_one(Listing).focus()
        elif self._marked_row is not None and not self._is_open:
            if self._marked_row.ref:
                self._show_content(self._marked_row)
            else:
                self.show_message(f"`{self._marked_row.name}` has no content to open")

    def _show_content(self, row: ComponentRow | None) -> None:
        """Show the content of a row in place of the list. For None, show the list again."""
        for pages in self.query(Pages):
            pages.display = row is not None
            self.query_one(Listing).display = row is None
            filter_field = self.query_one("#looked-for", Input)
            filter_field.display = row is None and bool(filter_field.value)
            self.set_focus(None)
            if row is not None and self._controller.session is not None:
                pages.show(self._controller.session.archive_listing, row.ref)
        if row is None:
            self.query_one(Listing).focus()
        self._draw()

    def _scroll_content(self, line_count: int) -> None:
        for pages in self.query(Pages):
            pages.scroll_lines(line_count)

    def _select_column(self, step: int) -> None:
        count = len(self._plot_columns(max(self.size.width - 2, 1)))
        if count and self._selected_column is not None:
            self._selected_column = max(0, min(self._selected_column + step, count - 1))
            self._draw()

    def _offer_bring_back(self) -> None:
        try:
            ref = ref_to_bring(self._marked_row)
        except AgentError as error:
            self.show_message(str(error))
            return
        self._offer(lambda: propose_bring_back(self._controller, ref), lambda: run_bring_back(self._controller, ref))

    def _offer_edit(self, act: Act) -> None:
        try:
            request = edit_of_row(act, self._marked_row)
        except AgentError as error:
            self.show_message(str(error))
            return
        self._offer(lambda: propose_edit(self._controller, request), lambda: run_edit(self._controller, request))

    def _offer(self, get_proposal: Callable[[], Awaitable[Proposal]], work: Callable[[], Awaitable[str]]) -> None:
        """Show what an action would do and cost. Enter then runs it."""

        async def show_proposal() -> None:
            proposal = await get_proposal()
            self.show_message(proposal.text, offered_action=work if proposal.is_possible else None)

        self._start_work(show_proposal)

    async def _run_offered_action(self, work: Callable[[], Awaitable[str]]) -> None:
        self.show_message("working …")
        message = await work()
        if self._controller.session is not None:
            self._components = await load_components(self._controller, self._controller.session.id)
        self.show_message(message)
        if self.is_attached:
            self._selected_column = None
            self._rebuild_rows()

    def _start_work(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run the work as a task of the app, so that it finishes even if the screen closes. Only one task runs at a
        time."""
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
        self._rebuild_rows()


async def load_components(controller: SessionController, session_id: str) -> ComponentTable:
    """Load the components of a session's context. Raises `AgentError`."""
    return await asyncio.to_thread(build_component_table, await controller.sessions.overview(session_id))


def _is_same_row(row: ComponentRow, other_row: ComponentRow) -> bool:
    return (row.key, row.level) == (other_row.key, other_row.level) and (bool(row.key) or row.name == other_row.name)
