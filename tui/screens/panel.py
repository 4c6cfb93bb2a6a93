"""The screen for a panel: a searchable list with the details of the marked row."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Input, Static
from textual.worker import Worker

from ebbtide.agent.errors import AgentError
from ebbtide.tui.screens.typeahead_guard import TypeaheadGuardedDialog
from ebbtide.tui.text.sanitise import sanitised
from ebbtide.tui.text.spans import TextStyle, parse_inline_code
from ebbtide.tui.text.styles import clipped_text, palette_of
from ebbtide.tui.view.panel import (
    NO_ROW,
    CopyText,
    Panel,
    PanelAction,
    PanelRow,
    RowChosen,
    ShowMessage,
    action_of,
    headline,
    hints,
    is_letter,
    keys_of,
    matching_rows,
    row_line,
)
from ebbtide.tui.view.panel_height import lines_needed
from ebbtide.tui.widgets.detail import Detail
from ebbtide.tui.widgets.field import Field, NoteField
from ebbtide.tui.widgets.keyline import KeyLine
from ebbtide.tui.widgets.listing import Listing
from ebbtide.tui.widgets.worker import begin

MAX_DIALOG_WIDTH, OWN_HEIGHT = 120, ("theme", "todos", "remember")
"""Maximum dialog width, and panels with their own height in dialogs.tcss."""
_FRAME, _EDGES = 4, 2
"""Columns and lines of the frame."""
_NEAR = 20
"""Distance from the last row at which more rows are loaded."""


class PanelScreen(TypeaheadGuardedDialog[RowChosen | None]):
    """Returns the chosen row, or None. Actions are defined by the panel."""

    AUTO_FOCUS = ""

    def __init__(self, panel: Panel) -> None:
        super().__init__()
        self.panel = panel
        self._rows = panel.rows
        self._words = panel.words
        self._is_told = False
        """Whether a message replaces the key hints."""
        self._is_due = False
        """Whether a redraw is pending: several changes are drawn together."""
        self._adds: Panel | None = None
        """The panel to which rows are being added."""
        self._reading: dict[str, Worker[None]] = {}
        self.add_class(panel.name)
        self.set_class(panel.reads, "reads")

    def compose(self) -> ComposeResult:
        panel = self.panel
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            if panel.search:
                yield Field(panel.words, placeholder=panel.search, id="filter", select_on_focus=False)
            with Container(id="both"):
                yield Listing(id="list")
                yield Detail(id="detail")
            yield NoteField(id="note", select_on_focus=True)
            yield KeyLine(id="answers")

    def on_mount(self) -> None:
        panel, listing = self.panel, self.query_one(Listing)
        listing.can_focus = not panel.search or any(map(is_letter, keys_of(panel)))
        (self.query_one("#filter") if panel.search else listing).focus()
        self._fill(panel.words)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())
        if panel.watch is not None:
            panel.watch(self._schedule_redraw)
            self.call_later(self._schedule_redraw)  # something may have happened since the panel was made

    def on_unmount(self) -> None:
        if self.panel.watch is not None:
            self.panel.watch(None)

    def on_resize(self) -> None:
        panel, listing = self.panel, self.query_one(Listing)
        is_beside = bool(panel.min_width_beside) and self.size.width >= panel.min_width_beside
        self.set_class(is_beside, "beside")
        if panel.most:
            listing.styles.height = "1fr" if is_beside else max(1, min(panel.most, len(self._rows)))
        self._take_room()

    def _take_room(self) -> None:
        """Size the dialog for a short list; it keeps its size during a search."""
        if self.panel.name not in OWN_HEIGHT:
            needed = lines_needed(self.panel, min(self.size.width, MAX_DIALOG_WIDTH) - _FRAME)
            self.query_one("#dialog").styles.height = needed + _EDGES if needed else None

    @property
    def is_asking(self) -> bool:
        return self.panel.is_guarded

    def accepts_key(self, key: events.Key) -> bool:
        return not key.is_printable or key.key == "q" or key.key in keys_of(self.panel)

    @property
    def settled(self) -> bool:
        """Whether everything requested is on the screen."""
        is_read = self.is_mounted and all(work.is_finished for work in self._reading.values())
        return is_read and not self._is_due and self.query_one(Detail).settled

    @property
    def rows(self) -> tuple[PanelRow, ...]:
        """The matching rows."""
        return self._rows

    @property
    def row(self) -> PanelRow | None:
        """The marked row, or None."""
        index = self.query_one(Listing).marked
        return self._rows[index] if index < len(self._rows) and not self._rows[index].is_heading else None

    @property
    def is_editing(self) -> bool:
        return self.query_one(NoteField).asked is not None

    @property
    def is_whole(self) -> bool:
        """Whether the details use the room of the list."""
        return bool(self.panel.rows) and not self.query_one(Listing).display

    # The list

    def show(self, panel: Panel) -> None:
        """Show another panel instead, keeping the mark or using the panel's own."""
        before, self.panel = self.row, panel
        self._list(panel.mark or (before.value if before is not None else ""))
        if panel.message is not None:
            self._show_message(panel.message.text, panel.message.ink)

    def _fill(self, words: str) -> None:
        """List the matches from the start."""
        self._words = words
        if self.panel.find is None:
            self._list("" if words.strip() else self.panel.mark, anew=True)
        else:
            self._start_reading("fill", partial(self._find, self.panel.find(words)))

    async def _find(self, panels: AsyncIterator[Panel]) -> None:
        is_anew = True
        async for panel in panels:
            if self._pruning:  # what is on it goes before it does
                return
            if is_anew:
                self.panel, is_anew = panel, False
                self._list(panel.mark, anew=True)
            else:
                self.show(panel)

    def _list(self, mark: str, *, anew: bool = False) -> None:
        self._rows = rows = matching_rows(self.panel, self._words)
        listing = self.query_one(Listing)

        def paint(index: int, width: int) -> Text:
            return clipped_text([row_line(rows[index], width)], palette_of(self.app.theme_variables))

        (listing.show if anew else listing.change)(len(rows), paint)
        at = next((at for at, row in enumerate(rows) if row.value == mark and mark), listing.marked)
        listing.move(at - listing.marked)
        if rows and rows[listing.marked].is_heading:
            self._move(1)
        listing.display = bool(self.panel.rows) or bool(self.panel.search)
        self.on_resize()
        self._draw()

    def _draw(self) -> None:
        head = headline(self.panel, len(self._rows), is_searched=bool(self._words.strip()))
        self.query_one("#headline", Static).update(clipped_text(head, palette_of(self.app.theme_variables)))
        self.query_one(Listing).refresh()
        self._look()

    def _move(self, step: int) -> None:
        """Move the mark, skipping headings."""
        listing, rows = self.query_one(Listing), self._rows
        before = listing.marked
        listing.move(step)
        direction = 1 if step > 0 else -1
        while rows and rows[listing.marked].is_heading:
            at = listing.marked
            listing.move(direction)
            if listing.marked == at:  # nothing but a heading on that side
                listing.move(before - at)
                return

    # Details

    def on_listing_row_highlighted(self) -> None:
        self._look()
        more, near = self.panel.more, self.query_one(Listing).marked >= len(self._rows) - _NEAR
        if more is not None and near and self._adds is not self.panel:
            self._adds = self.panel
            self._start_reading("more", partial(self._add, more))

    async def _add(self, more: Callable[[], Awaitable[Panel]]) -> None:
        before, panel = self.panel, await more()
        if self.panel is before and not self._pruning:
            self.show(panel)

    def _look(self) -> None:
        row, panel = self.row, self.panel
        missing = panel.empty if not self._words.strip() else panel.not_found or panel.empty
        told = panel.about or ((parse_inline_code(missing, "dim"),) if missing and not self._rows else ())
        self.query_one(Detail).show(row or PanelRow("", (), about=told), tail=panel.tail)
        if row is not None and panel.marked is not None:
            panel.marked(row)
        self._name_keys()

    def _start_reading(self, group: str, work: Callable[[], Awaitable[None]]) -> None:
        """Load the visible details, cancelling earlier work of the group."""

        async def run() -> None:  # not begun yet: a worker may be cancelled before it starts
            try:
                await work()
            except AgentError as error:
                self._show_message(str(error), "warn")

        self._reading[group] = self.run_worker(run, group=group, exclusive=True)

    def _schedule_redraw(self) -> None:
        if self.is_mounted and not self._is_due:
            self._is_due = True
            self.call_later(self._renew)

    def _renew(self) -> None:
        self._is_due = False
        if self.panel.now is not None:
            self.show(self.panel.now())

    # Key hints and messages

    def _show_message(self, text: str, ink: TextStyle) -> None:
        self._is_told = True
        self.query_one(KeyLine).show_message(sanitised(text), ink)

    def _name_keys(self) -> None:
        if self._is_told:
            return
        asked, in_list = self.query_one(NoteField).asked, self.query_one(Listing).has_focus
        named = hints(self.panel, self.row or NO_ROW, in_list=in_list, is_whole=self.is_whole)
        self.query_one(KeyLine).show(asked[0].asks.keys if asked is not None and asked[0].asks is not None else named)

    def _clear_message(self) -> None:
        if self._is_told:
            self._is_told = False
            self._name_keys()

    def on_descendant_focus(self) -> None:
        self._name_keys()

    # User actions

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter" and event.value != self._words:
            self._clear_message()
            self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._clear_message()
        if event.input.id == "filter":
            self._act("enter")
        elif (asked := self.query_one(NoteField).asked) is not None:
            begin(self, partial(self._do, *asked, event.value), "act")

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Listing):
            self._act("enter")

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
        """Handle a key; return whether it has a meaning."""
        listing, is_listed = self.query_one(Listing), not self.panel.search
        is_in_list = is_listed or listing.has_focus
        match event.key:
            case "escape" | "o" if self.is_whole:
                self._show_whole(False)
            case "escape":
                self.dismiss(None)
            case "up" | "down":
                self._step(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self._page(-1 if event.key == "pageup" else 1)
            case key if (is_in_list or not is_letter(key)) and self._act(key):
                pass
            case key if is_listed and self.query_one(Detail).process_key(key):
                pass
            case "j" | "k" if is_listed:
                self._move(1 if event.key == "j" else -1)
            case "home" | "end" if is_listed:
                self._move(-len(self._rows) if event.key == "home" else len(self._rows))
            case "q" | "enter" if is_listed:
                self.dismiss(None)
            case _ if listing.has_focus and not is_listed and event.character and event.is_printable:
                self.query_one("#filter", Field).take_over(event.character)
            case _:
                return False
        return True

    def _step(self, step: int) -> None:
        if self.is_whole or not (self.panel.rows or self.panel.search):
            self.query_one(Detail).turn(step)
        else:
            self._move(step)

    def _page(self, direction: int) -> None:
        if self.panel.reads:
            self.query_one(Detail).page(direction)
        else:
            self._move(direction * max(1, self.query_one(Listing).size.height - 1))

    def _act(self, key: str) -> bool:
        """Run the action of a key on the marked row; return whether there is one."""
        row = self.row
        action = action_of(self.panel, key, row)
        if action is None:
            return False
        row = row or NO_ROW
        if action.asks is not None:
            self.query_one(NoteField).ask(action, row)
        elif action.do is None:
            self.dismiss(RowChosen(row.value, action.word))
        else:
            begin(self, partial(self._do, action, row), "act")
        return True

    async def _do(self, action: PanelAction, row: PanelRow, words: str = "") -> None:
        assert action.do is not None
        if action.asks is not None and action.asks.meanwhile:
            self._show_message(action.asks.meanwhile, "dim")
        try:
            outcome = await action.do(row, words)
        except AgentError as error:
            self._show_message(str(error), "warn")
            if action.asks is not None and action.asks.is_hidden:
                self.query_one(NoteField).action_select_all()  # another one would be written behind it, unseen
            return
        self._end_editing()
        match outcome:
            case RowChosen():
                self.dismiss(outcome)
            case Panel():
                self.show(outcome)
            case ShowMessage(text, ink):
                self._show_message(text, ink)
            case CopyText(text):
                self.app.copy_to_clipboard(text)
                self._show_message(f"copied {text}", "dim")
            case "whole":
                self._show_whole(not self.is_whole)
            case None:
                pass

    def _end_editing(self) -> None:
        if (action := self.query_one(NoteField).end()) is not None:
            is_of_list = not self.panel.search or any(map(is_letter, action.keys))
            self.query_one("#list" if is_of_list else "#filter").focus()
            self._name_keys()

    def _show_whole(self, whole: bool) -> None:
        """Show the details in the room of the list, or the list again."""
        listing = self.query_one(Listing)
        listing.display = not whole
        if not whole:
            listing.focus()
        self._name_keys()
        self.query_one(Detail).refit()
