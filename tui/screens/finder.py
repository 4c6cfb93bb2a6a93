"""A list to find something in by typing, with what there is to say of the marked line."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.text.fuzzy import ranked
from tui.text.inks import Line
from tui.text.styles import painted, palette_of
from tui.view.list_entry import ListEntry, set_in
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing

Answer = TypeVar("Answer")


class Finder(ModalScreen[Answer], Generic[Answer]):
    """A list with a box for words above it. What Enter does with the marked line is for others to say: `taken`."""

    AUTO_FOCUS = "#filter"
    DEFAULT_CSS = """
    Finder #found { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $background; }
    Finder #told { height: auto; max-height: 8; margin-bottom: 0; }
    Finder #note { background: $background; height: auto; display: none; }
    """
    KEYS = "Up, Down   Enter takes   Esc leaves"

    def __init__(self, heading: Line, entries: Sequence[ListEntry], empty: str, words: str = "") -> None:
        """`words`: what is in the box at first."""
        super().__init__()
        self._heading = heading
        self._entries = tuple(entries)
        self._found = self._entries
        self._empty = empty
        self._words = words
        self._news: tuple[str, tuple[Line, ...]] = ("", ())
        """What has just happened to a line, by its value."""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            yield Field(self._words, placeholder="type to find", id="filter", select_on_focus=False)
            yield Listing(id="found")
            yield Static(id="told", markup=False)
            yield from self.below()
            yield KeyLine(self.KEYS, id="answers")

    def on_mount(self) -> None:
        self.query_one(Listing).can_focus = False
        self._dress()
        self._fill(self._words)
        self.app.theme_changed_signal.subscribe(self, lambda _: self._dress())

    @property
    def words(self) -> str:
        return self.query_one("#filter", Input).value

    @property
    def marked(self) -> ListEntry | None:
        """The marked line; None where nothing is found."""
        index = self.query_one(Listing).marked
        return self._found[index] if index < len(self._found) and not self._found[index].is_heading else None

    # What others say

    def below(self) -> ComposeResult:
        """Widgets between the list and the keys."""
        yield from ()

    def taken(self, entry: ListEntry | None) -> None:
        """Enter was pressed at that line; None: nothing was found."""

    def passed(self, entry: ListEntry | None) -> None:
        """That line is marked now."""

    def besides(self, words: str) -> Sequence[ListEntry]:
        """Lines that these words bring, behind those that are found by them."""
        return ()

    def first(self, entries: Sequence[ListEntry]) -> int:
        """The index of the line that is marked at first."""
        return 0

    def show(self, entries: Sequence[ListEntry], mark: str | None = None) -> None:
        """Shows other lines; the one with the value `mark` is marked, if it is among them."""
        self._entries = tuple(entries)
        self._fill(self.words, mark)

    def say(self, lines: Sequence[Line]) -> None:
        """What is told below the list."""
        self.query_one("#told", Static).update(painted(lines, palette_of(self.app.theme_variables)))

    def tell(self, value: str, lines: Sequence[Line]) -> None:
        """Tells what has just happened to the line with that value, for as long as it is marked."""
        self._news = (value, tuple(lines))
        self._say_marked()

    def _say_marked(self) -> None:
        marked = self.marked
        value, news = self._news
        if marked is None:
            self.say(() if self._found else [((self._empty, "dim"),)])
        else:
            self.say((*(news if value == marked.value else ()), *marked.about))

    def hint(self, keys: str) -> None:
        """The keys in the last line."""
        self.query_one(KeyLine).show(keys)

    # What the user does

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter" and event.value != self._words:
            self._words = event.value
            self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "filter":
            self.taken(self.marked)

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and isinstance(event.widget, Listing):
            self.taken(self.marked)

    def on_listing_moved(self) -> None:
        if self.marked is not None and self.marked.value != self._news[0]:
            self._news = ("", ())
        self._say_marked()
        self.passed(self.marked)

    def on_key(self, event: events.Key) -> None:
        page = max(1, self.query_one(Listing).size.height - 1)
        match event.key:
            case "escape":
                self.left()
            case "up" | "down":
                self._move(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self._move(-page if event.key == "pageup" else page)
            case _:
                return
        event.stop()
        event.prevent_default()

    def left(self) -> None:
        """Esc was pressed."""

    def _move(self, step: int) -> None:
        """Marks a line further down or up, past headings."""
        listing = self.query_one(Listing)
        before = listing.marked
        listing.move(step)
        direction = 1 if step > 0 else -1
        while self._found and self._found[listing.marked].is_heading:
            at = listing.marked
            listing.move(direction)
            if listing.marked == at:  # nothing but a heading on that side
                listing.move(before - at)
                return

    def _fill(self, words: str, mark: str | None = None) -> None:
        is_searched = bool(words.strip())
        entries = [entry for entry in self._entries if not (is_searched and entry.is_heading)]
        order = ranked(words, [entry.searched for entry in entries]) if is_searched else range(len(entries))
        self._found = found = (*(entries[index] for index in order), *self.besides(words.strip()))

        def paint(index: int, width: int) -> Text:
            return painted([set_in(found[index], width)], palette_of(self.app.theme_variables))

        listing = self.query_one(Listing)
        listing.show(len(found), paint)
        marks = [index for index, entry in enumerate(found) if entry.value == mark and mark is not None]
        listing.move(marks[0] if marks else 0 if is_searched else self.first(found))
        if found and found[listing.marked].is_heading:
            self._move(1)

    def _dress(self) -> None:
        palette = palette_of(self.app.theme_variables)
        self.query_one("#headline", Static).update(painted([self._heading], palette))
        self._say_marked()
        self.query_one(Listing).refresh()
