"""What commands ask for, done on the session and on the screen. It knows neither keys nor when a command may run."""

from collections.abc import Awaitable, Callable
from time import time
from typing import Any

from textual.app import App

from tui.screens.archive import archive_screen
from tui.screens.context import ContextScreen
from tui.screens.help import HelpScreen
from tui.screens.models import model_picker
from tui.screens.places import PlacesScreen
from tui.screens.servers import ServersScreen
from tui.screens.sessions import session_picker
from tui.showing import Showing
from tui.talk import Talk
from tui.widgets.prompt import Prompt


class Doing:
    """The desk of the commands."""

    def __init__(
        self, app: App[Any], talk: Talk, showing: Showing, model: str | None, leave: Callable[[], Awaitable[None]]
    ) -> None:
        """`model`: for new sessions, where no other was chosen. `leave` ends all that runs, and the program."""
        self._app = app
        self._talk = talk
        self._showing = showing
        self._model = model
        self._leave = leave

    async def show_help(self) -> None:
        if not isinstance(self._app.screen, HelpScreen):
            self._app.push_screen(HelpScreen())

    async def compact(self, focus: str) -> None:
        await self._talk.compact(focus)

    async def why(self, text: str) -> None:
        trace = await self._talk.why(text)
        if trace.places and self._talk.session is not None:
            ref = await self._app.push_screen_wait(PlacesScreen(self._talk.session.shelf, text, trace))
            if ref:
                await self._talk.bring(ref)

    async def bring(self, ref: str) -> None:
        await self._talk.bring(ref)

    async def show_archive(self) -> None:
        if self._talk.session is not None:
            ref = await self._app.push_screen_wait(await archive_screen(self._talk.session, time()))
            if ref:
                self._app.query_one(Prompt).insert(f"{ref} ")

    async def show_context(self) -> None:
        if self._talk.session is not None:
            self._app.push_screen(ContextScreen(await self._talk.sessions.overview(self._talk.session.id)))

    async def show_servers(self) -> None:
        board = self._talk.session.servers if self._talk.session is not None else None
        if board is None:
            self._talk.notice("no server is declared; `ebb mcp add` declares one")
        else:
            self._app.push_screen(ServersScreen(board))

    async def resume(self, id: str) -> None:
        current = self._talk.session.id if self._talk.session is not None else ""
        if not id:
            id = await self.pick_session()
        if id and id != current and await self._talk.open(resume=id):
            self._showing.session()

    async def pick_session(self) -> str:
        """The id of the session that the user picks; empty when none is."""
        current = self._talk.session.id if self._talk.session is not None else ""
        recent = await self._talk.sessions.recent()
        return await self._app.push_screen_wait(session_picker(recent, current, time()))

    async def choose_model(self, name: str) -> None:
        session = self._talk.session
        current = session.model if session is not None else ""
        name = name or await self._app.push_screen_wait(model_picker(self._talk.sessions.models(), current))
        if not name or name == current:
            return
        said = session is not None and session.history.messages
        if await self._talk.open(resume=session.id if session is not None and said else None, model=name):
            self._showing.session()
            self._talk.notice(f"the model is now {name}")

    async def clear(self) -> None:
        if await self._talk.open(model=self._talk.session.model if self._talk.session is not None else self._model):
            self._showing.session()

    async def leave(self) -> None:
        await self._leave()
