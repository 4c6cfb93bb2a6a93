"""The screen for a panel: a searchable list and the details of the marked row."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Input, Static

from ebbtide.agent.errors import AgentError
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuardedDialog
from ebbtide.tui.text.sanitise import sanitise
from ebbtide.tui.text.spans import TextStyle
from ebbtide.tui.text.styles import clipped_text, get_palette
from ebbtide.tui.view.panel import (
    NO_ROW,
    CopyText,
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
    action_for_key,
    action_keys,
    empty_row,
    is_typing_key,
    matching_rows,
    panel_headline,
    panel_key_hints,
    tab_titles,
)
from ebbtide.tui.view.panel_height import dialog_height
from ebbtide.tui.widgets.detail import Detail
from ebbtide.tui.widgets.field import ActionField, Field
from ebbtide.tui.widgets.key_line import KeyLine
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.row_listing import RowListing
from ebbtide.tui.widgets.worker import Loading, start_worker

PANELS_WITH_OWN_HEIGHT = ("theme", "todos", "remember")
"""Names of panels whose height is set in dialogs.tcss."""
_LOAD_MORE_DISTANCE = 20
"""More rows are loaded once the marked row is this close to the last one."""


class PanelScreen(TypeaheadGuardedDialog[RowChosen | None]):
    """Shows a panel and returns the chosen row, or None. The panel defines which actions there are."""

    AUTO_FOCUS = ""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.panel = panel
        self._search_text = panel.search_text
        self._tab_index = 0
        """The current tab, if the panel has tabs."""
        self._is_redraw_pending = False
        """Whether a redraw is scheduled. Several changes are drawn together."""
        self._extended_panel: Panel | None = None
        """The panel that rows were last added to."""
        self._loading_workers = Loading(self, lambda error: self._show_message(str(error), "warn"))
        self.add_class(panel.name)
        self.set_class(panel.page_keys_scroll_details, "reads")

    def compose(self) -> ComposeResult:
        panel = self.panel
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            if panel.search_placeholder:
                yield Field(panel.search_text, placeholder=panel.search_placeholder, id="filter", select_on_focus=False)
            with Container(id="both"):
                yield RowListing(id="list")
                yield Detail(id="detail")
            yield ActionField(id="note", select_on_focus=True)
            yield KeyLine(id="answers")

    def on_mount(self) -> None:
        panel, listing = self.panel, self._listing
        listing.can_focus = not panel.search_placeholder or any(map(is_typing_key, action_keys(panel)))
        (self.query_one("#filter") if panel.search_placeholder else listing).focus()
        self._search(panel.search_text)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        if panel.set_watcher is not None:
            panel.set_watcher(self._schedule_redraw)
            self.call_later(self._schedule_redraw)  # there may be changes since the panel was created

    def on_unmount(self) -> None:
        if self.panel.set_watcher is not None:
            self.panel.set_watcher(None)

    def on_resize(self) -> None:
        panel, listing = self.panel, self._listing
        is_side_by_side = bool(panel.min_side_by_side_width) and self.size.width >= panel.min_side_by_side_width
        self.set_class(is_side_by_side, "beside")
        if panel.max_list_lines:
            listing.styles.height = "1fr" if is_side_by_side else max(1, min(panel.max_list_lines, len(self.rows)))
        self._fit_height()

    def _fit_height(self) -> None:
        """Fit the dialog's height to a short list. The height does not change during a search."""
        if self.panel.name not in PANELS_WITH_OWN_HEIGHT:
            self.query_one("#dialog").styles.height = dialog_height(self.panel, self.size.width)

    @property
    def is_asking(self) -> bool:
        return self.panel.is_guarded

    def accepts_key(self, key: events.Key) -> bool:
        return not key.is_printable or key.key == "q" or key.key in action_keys(self.panel)

    @property
    def is_settled(self) -> bool:
        """Whether everything requested is visible."""
        return (
            self.is_mounted
            and self._loading_workers.is_finished
            and not self._is_redraw_pending
            and self.query_one(Detail).is_settled
        )

    @property
    def rows(self) -> tuple[PanelRow, ...]:
        """The matching rows."""
        return self._listing.rows

    @property
    def marked_row(self) -> PanelRow | None:
        """The marked row, if any."""
        return self._listing.marked_row

    @property
    def _listing(self) -> RowListing:
        return self.query_one(RowListing)

    @property
    def is_editing(self) -> bool:
        return self.query_one(ActionField).pending_action is not None

    @property
    def is_expanded(self) -> bool:
        """Whether the details are shown instead of the list."""
        return bool(self.panel.rows) and not self._listing.display

    # The list

    def show(self, panel: Panel) -> None:
        """Show another panel in place of this one. The same row stays marked unless the new panel specifies another
        one."""
        previous_row, self.panel = self.marked_row, panel
        self._rebuild_list(panel.initial_value or (previous_row.value if previous_row is not None else ""))
        if panel.message is not None:
            self._show_message(panel.message.text, panel.message.style)

    def _search(self, search_text: str) -> None:
        """List the matching rows, starting at the top."""
        self._search_text = search_text
        if self.panel.find_rows is None:
            self._rebuild_list("" if search_text.strip() else self.panel.initial_value, starts_at_top=True)
        else:
            self._loading_workers.start("fill", partial(self._show_results, self.panel.find_rows(search_text)))

    async def _show_results(self, panels: AsyncIterator[Panel]) -> None:
        is_first = True
        async for panel in panels:
            if self._pruning:  # its widgets are already being removed
                return
            if is_first:
                self.panel = panel
                is_first = False
                self._rebuild_list(panel.initial_value, starts_at_top=True)
            else:
                self.show(panel)

    def _rebuild_list(self, marked_value: str, *, starts_at_top: bool = False) -> None:
        self._listing.show_rows(
            matching_rows(self.panel, self._search_text, self._tab_index), marked_value, is_new=starts_at_top
        )
        self._listing.display = bool(self.panel.rows) or bool(self.panel.search_placeholder)
        self.on_resize()
        self._draw()

    def _draw(self) -> None:
        headline = panel_headline(
            self.panel, len(self.rows), is_searched=bool(self._search_text.strip()), tab_index=self._tab_index
        )
        self.query_one("#headline", Static).update(clipped_text(headline, get_palette(self.app.theme_variables)))
        self._listing.refresh()
        self._show_details()

    # Details

    def on_listing_row_highlighted(self) -> None:
        self._show_details()
        load_more = self.panel.load_more
        is_near_end = self._listing.marked_index >= len(self.rows) - _LOAD_MORE_DISTANCE
        if load_more is not None and is_near_end and self._extended_panel is not self.panel:
            self._extended_panel = self.panel
            self._loading_workers.start("more", partial(self._load_more, load_more))

    async def _load_more(self, load: Callable[[], Awaitable[Panel]]) -> None:
        previous_panel, panel = self.panel, await load()
        if self.panel is previous_panel and not self._pruning:
            self.show(panel)

    def _show_details(self) -> None:
        row, panel = self.marked_row, self.panel
        details = row or empty_row(panel, has_rows=bool(self.rows), is_searched=bool(self._search_text.strip()))
        self.query_one(Detail).show(details, scrolls_to_end=panel.starts_at_end)
        if row is not None and panel.on_row_marked is not None:
            panel.on_row_marked(row)
        self._show_key_hints()

    def _schedule_redraw(self) -> None:
        if self.is_mounted and not self._is_redraw_pending:
            self._is_redraw_pending = True
            self.call_later(self._redraw)

    def _redraw(self) -> None:
        self._is_redraw_pending = False
        if self.panel.rebuild is not None:
            self.show(self.panel.rebuild())

    # Key hints and messages

    def _show_message(self, text: str, style: TextStyle) -> None:
        self.query_one(KeyLine).show_message(sanitise(text), style)

    def _show_key_hints(self) -> None:
        if not self.query_one(KeyLine).has_message:
            self._replace_message()

    def _replace_message(self) -> None:
        """Show the key hints, in place of a message if there is one."""
        hints_text = self.query_one(ActionField).key_hints or panel_key_hints(
            self.panel,
            self.marked_row or NO_ROW,
            is_in_list=self._listing.has_focus,
            is_expanded=self.is_expanded,
        )
        self.query_one(KeyLine).show(hints_text)

    def _clear_message(self) -> None:
        if self.query_one(KeyLine).has_message:
            self._replace_message()

    def on_descendant_focus(self) -> None:
        self._show_key_hints()

    # User actions

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter" and event.value != self._search_text:
            self._clear_message()
            self._search(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._clear_message()
        if event.input.id == "filter":
            self._run_key_action("enter")
        elif (pending_action := self.query_one(ActionField).pending_action) is not None:
            start_worker(self, partial(self._run_action, *pending_action, event.value), "act")

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Listing):
            self._run_key_action("enter")

    def on_key(self, event: events.Key) -> None:
        self._clear_message()
        if self.is_editing:
            if event.key != "escape":
                return
            self._end_editing()
        elif not self._process_key(event):
            return
        event.stop()
        event.prevent_default()

    def _process_key(self, event: events.Key) -> bool:
        """Handle a key. Returns whether it did anything."""
        listing, is_plain_list = self._listing, not self.panel.search_placeholder
        is_in_list = is_plain_list or listing.has_focus
        match event.key:
            case "escape" | "o" if self.is_expanded:
                self._set_expanded(False)
            case "escape":
                self.dismiss(None)
            case "left" | "right" if self.panel.has_tabs and not self._search_text:
                self._show_tab(self._tab_index + (-1 if event.key == "left" else 1))
            case "up" | "down":
                self._move_or_scroll(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self._move_or_scroll_page(-1 if event.key == "pageup" else 1)
            case key if (is_in_list or not is_typing_key(key)) and self._run_key_action(key):
                pass
            case key if is_plain_list and self.query_one(Detail).process_key(key):
                pass
            case "j" | "k" if is_plain_list:
                self._listing.move_to_row(1 if event.key == "j" else -1)
            case "home" | "end" if is_plain_list:
                self._listing.move_to_row(-len(self.rows) if event.key == "home" else len(self.rows))
            case "q" | "enter" if is_plain_list:
                self.dismiss(None)
            case _ if listing.has_focus and not is_plain_list and event.character and event.is_printable:
                self.query_one("#filter", Field).focus_and_insert(event.character)
            case _:
                return False
        return True

    def _show_tab(self, index: int) -> None:
        """Show another tab. The first one follows the last."""
        self._tab_index = index % len(tab_titles(self.panel))
        self._rebuild_list("", starts_at_top=True)

    def _move_or_scroll(self, step: int) -> None:
        if self.is_expanded or not (self.panel.rows or self.panel.search_placeholder):
            self.query_one(Detail).scroll_lines(step)
        else:
            self._listing.move_to_row(step)

    def _move_or_scroll_page(self, direction: int) -> None:
        if self.panel.page_keys_scroll_details:
            self.query_one(Detail).scroll_page(direction)
        else:
            self._listing.move_to_row(direction * max(1, self._listing.size.height - 1))

    def _run_key_action(self, key: str) -> bool:
        """Run the key's action on the marked row. Returns whether the key has one."""
        row = self.marked_row
        action = action_for_key(self.panel, key, row)
        if action is None:
            return False
        row = row or NO_ROW
        if action.text_request is not None:
            self.query_one(ActionField).open_field(action, row)
        elif action.run is None:
            self.dismiss(RowChosen(row.value, action.command_word))
        else:
            start_worker(self, partial(self._run_action, action, row), "act")
        return True

    async def _run_action(self, action: PanelAction, row: PanelRow, entered_text: str = "") -> None:
        assert action.run is not None
        if action.text_request is not None and action.text_request.progress_message:
            self._show_message(action.text_request.progress_message, "dim")
        try:
            outcome = await action.run(row, entered_text)
        except AgentError as error:
            self._show_message(str(error), "warn")
            if action.text_request is not None and action.text_request.is_hidden:
                self.query_one(ActionField).action_select_all()  # so that the next key replaces the hidden text
            return
        self._end_editing()
        match outcome:
            case RowChosen():
                self.dismiss(outcome)
            case Panel():
                self.show(outcome)
            case ShowMessage(text, style):
                self._show_message(text, style)
            case CopyText(text):
                self.app.copy_to_clipboard(text)
                self._show_message(f"copied {text}", "dim")
            case "toggle details":
                self._set_expanded(not self.is_expanded)
            case None:
                pass

    def _end_editing(self) -> None:
        if (action := self.query_one(ActionField).close_field()) is not None:
            belongs_to_list = not self.panel.search_placeholder or any(map(is_typing_key, action.keys))
            self.query_one("#list" if belongs_to_list else "#filter").focus()
            self._show_key_hints()

    def _set_expanded(self, is_expanded: bool) -> None:
        """Show the details instead of the list, or the list again."""
        listing = self._listing
        listing.display = not is_expanded
        if not is_expanded:
            listing.focus()
        self._show_key_hints()
        self.query_one(Detail).fit_to_size()
