"""The stored sessions: found by title and by what was said, looked into, renamed, forked and deleted. It opens none: it
gives the one to go on with."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from agent.errors import AgentError
from agent.records.session_lookup import SessionInfo
from tui.session.ports import Library
from tui.session.session_pages import Listed
from tui.text.sanitise import visible_line
from tui.text.styles import painted, palette_of
from tui.view.sessions import WIDE, headline, session_line
from tui.widgets.field import Field
from tui.widgets.keyline import KeyLine
from tui.widgets.lastsaid import LastSaid
from tui.widgets.listing import Listing
from tui.widgets.worker import begin

KEYS = "Enter opens   Tab to list: r renames, f forks, d deletes, a all projects   Esc closes"
LIST_KEYS = "Enter opens   r renames   f forks   d deletes   a all projects   PgUp, PgDn   Esc closes"
NAME_KEYS = "Enter takes the title   Esc leaves it as it is"
PAUSE = 0.15
"""Seconds without a key after which what was said is searched: a search that has begun goes on to its end, and the next
one waits for it."""
NOTHING_FOUND = "no session is found"
NOTHING_YET = "no session in this project yet; a shows all projects"


@dataclass(frozen=True, slots=True)
class ClosedList:
    """How the list was left."""

    open: str = ""
    """The id of the session to go on with; empty when there is none."""
    delete: tuple[str, ...] = ()
    """The ids of those that are to be deleted."""


class SessionsScreen(ModalScreen[ClosedList]):
    """Nothing is deleted before the screen is left."""

    AUTO_FOCUS = "#filter"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False, priority=True)]
    CSS = """
    SessionsScreen #dialog { height: 90%; width: 100%; max-width: 200; }
    SessionsScreen #headline { margin-bottom: 0; }
    SessionsScreen #both { height: 1fr; layout: vertical; }
    SessionsScreen #list { height: 1fr; scrollbar-size-vertical: 1; overflow-x: hidden; background: $background; }
    SessionsScreen #about { height: 1fr; margin-top: 1; scrollbar-size-vertical: 1; }
    SessionsScreen #said { width: 100%; height: auto; text-wrap: wrap; text-overflow: fold; }
    SessionsScreen #name { display: none; height: 1; border: none; padding: 0; background: $surface; }
    SessionsScreen.naming #name { display: block; }
    SessionsScreen.naming #filter { display: none; }
    SessionsScreen.wide #both { layout: horizontal; }
    SessionsScreen.wide #list { width: 3fr; height: 100%; }
    SessionsScreen.wide #about { width: 2fr; height: 100%; margin: 0 0 0 2; }
    """

    def __init__(self, library: Library, current: str, now: float) -> None:
        """`current`: the id of the session that is open; `now`: Unix seconds."""
        super().__init__()
        self._library = library
        self._current = current
        self._now = now
        self._listed = Listed(library)
        self._named: SessionInfo | None = None
        """The one whose title is being written: what is marked may change meanwhile."""
        self._doomed: dict[str, None] = {}
        self._is_told = False
        """What went wrong stands where the keys are named."""
        self.settled = False
        """All that was asked for is on the screen."""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(id="headline")
            yield Field(placeholder="type to find: titles, and what was said", id="filter", select_on_focus=False)
            yield Field(id="name", select_on_focus=False)
            with Horizontal(id="both"):
                yield Listing(id="list")
                yield LastSaid(self._library, id="about")
            yield KeyLine(KEYS, id="answers")

    def on_mount(self) -> None:
        self._say(KEYS)
        self._fill("")

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    @property
    def found(self) -> tuple[SessionInfo, ...]:
        return tuple(self._listed.sessions)

    @property
    def doomed(self) -> tuple[str, ...]:
        return tuple(self._doomed)

    @property
    def is_naming(self) -> bool:
        return self.has_class("naming")

    @property
    def _marked(self) -> SessionInfo | None:
        index, sessions = self.query_one(Listing).marked, self._listed.sessions
        return sessions[index] if index < len(sessions) else None

    # What is typed

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self._fill(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "name":
            begin(self, partial(self._rename, event.value), "change")
        else:
            self._open()

    def on_descendant_focus(self) -> None:
        if not self.is_naming and not self._is_told:
            self._say(LIST_KEYS if self.query_one(Listing).has_focus else KEYS)

    def on_key(self, event: events.Key) -> None:
        self._is_told = False
        if self.is_naming:
            return
        listing = self.query_one(Listing)
        match event.key:
            case "up" | "down":
                listing.move(-1 if event.key == "up" else 1)
            case "pageup" | "pagedown":
                self.query_one(LastSaid).page(-1 if event.key == "pageup" else 1)
            case _ if listing.has_focus and self._acts(event.key):
                pass
            case _ if listing.has_focus and event.character and event.is_printable:
                self.query_one("#filter", Field).go_on_with(event.character)
            case _:
                return
        event.stop()
        event.prevent_default()

    def _acts(self, key: str) -> bool:
        """Does what a key means on the list. Tells whether it means something."""
        match key:
            case "enter":
                self._open()
            case "r":
                self._begin_naming()
            case "f":
                begin(self, self._fork, "change")
            case "d" | "delete":
                self._doom()
            case "a":
                self._listed.everywhere = not self._listed.everywhere
                self._fill(self._listed.words)
            case _:
                return False
        return True

    def action_leave(self) -> None:
        if self.is_naming:
            self._end_naming()
        else:
            self.dismiss(ClosedList("", self.doomed))

    def _open(self) -> None:
        marked = self._marked
        if marked is not None and marked.id not in self._doomed:
            self.dismiss(ClosedList(marked.id, self.doomed))

    def _doom(self) -> None:
        """Lets the marked session be deleted when the screen is left, or not."""
        marked = self._marked
        if marked is None:
            return
        if marked.id == self._current:
            self._say("this session is open: `/clear` starts another one, then it can be deleted", is_bad=True)
        elif marked.id in self._doomed:
            del self._doomed[marked.id]
            self._say(f"`{marked.id}` stays")
        else:
            self._doomed[marked.id] = None
            self._say(f"`{marked.id}` is deleted when you leave this list; d again keeps it", is_bad=True)
        self._draw()

    # Renaming and forking

    def _begin_naming(self) -> None:
        self._named = marked = self._marked
        if marked is not None:
            self.add_class("naming")
            box = self.query_one("#name", Input)
            box.value = visible_line(marked.title)
            box.cursor_position = len(box.value)
            box.focus()
            self._say(NAME_KEYS)

    def _end_naming(self) -> None:
        self.remove_class("naming")
        self.query_one(Listing).focus()
        self._say(LIST_KEYS)

    async def _rename(self, title: str) -> None:
        named = self._named
        self._end_naming()
        if named is None:
            return
        try:
            await self._library.rename(named.id, title)
        except AgentError as error:
            self._say(str(error), is_bad=True)
        else:
            self._fill(self._listed.words, named.id)

    async def _fork(self) -> None:
        marked = self._marked
        if marked is None:
            return
        try:
            fork = await self._library.fork(marked.id)
        except AgentError as error:
            self._say(str(error), is_bad=True)
        else:
            self._fill(self._listed.words, fork.id)
            self._say(f"forked: `{fork.id}` begins as `{marked.id}`, which stays as it is")

    # What is listed

    def _fill(self, words: str, mark: str = "") -> None:
        """Lists what the words find, from the beginning."""
        self._listed.words, self.settled = words.strip(), False
        begin(self, partial(self._filled, mark), "fill", anew=True)

    async def _filled(self, mark: str) -> None:
        listed = self._listed
        try:
            await listed.begin()
            self._show(mark)
            if listed.words:
                await asyncio.sleep(PAUSE)
                await listed.add_said(self._draw)
                self._draw()
                self._look()
        except AgentError as error:
            listed.searching = ""
            self._say(str(error), is_bad=True)
        self.settled = True

    def on_listing_moved(self) -> None:
        self._look()
        if self._listed.has_more and self.query_one(Listing).marked >= len(self._listed.sessions) - 20:
            self._listed.has_more = False
            begin(self, self._add_page, "fill")

    async def _add_page(self) -> None:
        if not self._listed.sessions or self._listed.words:
            return
        try:
            await self._listed.add_page()
            self._draw()
        except AgentError as error:
            self._say(str(error), is_bad=True)

    def _show(self, mark: str) -> None:
        """Draws the list anew, with a session marked."""
        sessions, listing = self._listed.sessions, self.query_one(Listing)
        at = next((at for at, info in enumerate(sessions) if info.id == (mark or self._current)), 0)
        listing.show(len(sessions), self._painted)
        listing.move(at if mark or not self._listed.words else 0)
        self._headline()
        self._look()

    def _draw(self) -> None:
        """Draws the list as it is now, with the same session marked."""
        self.query_one(Listing).change(len(self._listed.sessions), self._painted)
        self._headline()

    def _painted(self, index: int, width: int) -> Text:
        listed = self._listed
        info = listed.sessions[index]
        line = session_line(info, width, self._now, self._current, self._doomed, projects=listed.everywhere)
        return painted([line], palette_of(self.app.theme_variables))

    def _headline(self) -> None:
        listed = self._listed
        more = listed.has_more and len(listed.sessions) >= 200
        line = headline(
            len(listed.sessions), more, everywhere=listed.everywhere, words=listed.words, searching=listed.searching,
            doomed=len(self._doomed),
        )  # fmt: skip
        self.query_one("#headline", Static).update(painted([line], palette_of(self.app.theme_variables)))

    def _look(self) -> None:
        begin(self, self._looked, "look", anew=True)

    async def _looked(self) -> None:
        about, marked = self.query_one(LastSaid), self._marked
        if marked is None:
            about.say(NOTHING_FOUND if self._listed.words else NOTHING_YET)
        else:
            await about.read(marked, self._listed.excerpt_of(marked))

    def _say(self, text: str, *, is_bad: bool = False) -> None:
        self._is_told = is_bad
        line = self.query_one(KeyLine)
        line.tell(visible_line(text), "warn") if is_bad else line.show(visible_line(text))
