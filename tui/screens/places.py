"""What `/why` found: each place where a text was said, what has become of it, and one key that brings it back into
view."""

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from agent.context.provenance import Occurrence, Trace
from tui.session.ports import Shelf
from tui.text.sanitise import visible_line
from tui.text.styles import painted, palette_of
from tui.view.provenance import count_of, fate_of, newest_first, occurrence_line
from tui.widgets.keyline import KeyLine
from tui.widgets.listing import Listing
from tui.widgets.pages import Pages

KEYS = "Enter brings it back  o shows it whole  PgUp, PgDn read  Esc closes"
KEYS_IN_VIEW = "o shows it whole  PgUp, PgDn read  Esc closes"
KEYS_WHOLE = "Enter brings it back  Up, Down, PgUp, PgDn read  Esc goes back to the list"
KEYS_WHOLE_IN_VIEW = "Up, Down, PgUp, PgDn read  Esc goes back to the list"


class PlacesScreen(ModalScreen[str]):
    """Gives the reference to bring back; empty when it was only looked at."""

    AUTO_FOCUS = "#shelf"

    def __init__(self, shelf: Shelf, text: str, trace: Trace) -> None:
        super().__init__()
        self._text = text
        self._told = trace.told
        self._places = newest_first(trace.places)
        self._column = max((len(place.ref) for place in self._places), default=0)
        self._pages = Pages(shelf)

    @property
    def settled(self) -> bool:
        """The page of the marked place is on the screen."""
        return self._pages.settled

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog", classes="high"):
            yield Static(id="headline")
            yield Listing(id="shelf")
            yield Static(id="fate", markup=False)
            yield self._pages
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        palette = palette_of(self.app.theme_variables)
        head = Text.assemble(("Why  ", palette.strong), (count_of(self._text, len(self._places)), palette.dim))
        for told in self._told:
            head.append(f"\n{visible_line(told)}", palette.warn)
        self.query_one("#headline", Static).update(head)

        def paint(index: int, width: int) -> Text:
            return painted([occurrence_line(self._places[index], width, self._column)], palette)

        listing = self.query_one(Listing)
        listing.show(len(self._places), paint)
        listing.move(next((at for at, place in enumerate(self._places) if place.fate != "visible"), 0))

    def on_listing_moved(self) -> None:
        self._say_fate()
        self._pages.show(self._marked.ref, self._text)

    def on_key(self, event: events.Key) -> None:
        match event.key:
            case "escape" | "o" if self._is_whole:
                self._show_whole(False)
            case "escape":
                self.dismiss("")
            case "o":
                self._show_whole(True)
            case "enter" | "b":
                self._bring()
            case "up" | "down":
                self._move(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self._pages.turn(self._pages.lines * (-1 if event.key == "pageup" else 1))
            case _:
                return
        event.stop()
        event.prevent_default()

    def _move(self, step: int) -> None:
        if self._is_whole:
            self._pages.turn(step)
        else:
            self.query_one(Listing).move(step)

    def _bring(self) -> None:
        if self._marked.fate == "visible":
            told = f"the model sees `{self._marked.ref}` already: nothing has to be brought back"
            self.query_one(KeyLine).tell(told, "warn")
        else:
            self.dismiss(self._marked.ref)

    def _show_whole(self, whole: bool) -> None:
        """Gives the page the room of the list, or gives it back."""
        self.query_one(Listing).display = not whole
        if not whole:
            self.query_one(Listing).focus()
        self._say_fate()
        self._pages.again()

    @property
    def _marked(self) -> Occurrence:
        return self._places[self.query_one(Listing).marked]

    @property
    def _is_whole(self) -> bool:
        return not self.query_one(Listing).display

    def _say_fate(self) -> None:
        palette, is_there = palette_of(self.app.theme_variables), self._marked.fate == "visible"
        fate = Text(visible_line(fate_of(self._marked)), palette.text if is_there else palette.accent)
        self.query_one("#fate", Static).update(fate)
        if self._is_whole:
            keys = KEYS_WHOLE_IN_VIEW if is_there else KEYS_WHOLE
        else:
            keys = KEYS_IN_VIEW if is_there else KEYS
        self.query_one(KeyLine).show(keys)
