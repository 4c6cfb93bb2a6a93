"""Collects the greeting of a new session once it is open."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from ebbtide.agent.errors import AgentError

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.records.session_lookup import SessionInfo
    from ebbtide.tui.session.controller import SessionController
    from ebbtide.tui.view.greeting import Greeting

_DAY = 86_400


class Greeter:
    """Looks up the parts of the greeting; until then, and without results, it is shorter."""

    def __init__(self, controller: "Callable[[], SessionController]") -> None:
        self._controller = controller
        self.settings: Settings | None = None
        self.told = ""
        """Additional remarks."""
        self._looked_for = ""
        self._sessions: tuple[SessionInfo, ...] = ()
        self._read: tuple[tuple[str, int], ...] = ()
        self._branch = ""

    async def look(self) -> bool:
        """Look up the greeting for the open session; return whether it may have changed."""
        from ebbtide.tui.view.greeting import MAX_LISTED_SESSIONS  # noqa: PLC0415  # deferred: behind the first paint

        controller = self._controller()
        session = controller.session
        if session is None or controller.view.blocks or session.id == self._looked_for:
            return False
        self._looked_for = session.id
        sessions = controller.sessions
        try:
            found = await sessions.recent(limit=MAX_LISTED_SESSIONS + 1)
        except AgentError:
            found = ()  # it is said where sessions are listed
        self._sessions = tuple(info for info in found if info.id != session.id and info.messages)[:MAX_LISTED_SESSIONS]
        self._branch, self._read = await asyncio.to_thread(
            _branch_and_sizes, session.root, sessions.instruction_files()
        )
        return True

    def greeting(self) -> "Greeting | None":
        """None while no session is open."""
        from ebbtide.tui.view.first_run import chosen_by_key  # noqa: PLC0415  # deferred: behind the first paint
        from ebbtide.tui.view.greeting import Greeting, tip_of  # noqa: PLC0415  # deferred: as above

        controller = self._controller()
        session = controller.session
        if session is None:
            return None
        now = time()
        return Greeting(
            model=session.model,
            folder=from_home(session.root),
            branch=self._branch,
            mode=session.mode,
            read=self._read,
            advice=(*chosen_by_key(session.model, self.settings), *([self.told] if self.told else [])),
            sessions=() if controller.view.blocks else self._sessions,
            tip=tip_of(int(now) // _DAY, len(self._sessions)),
            now=now,
        )

    def expand_session_number(self, text: str) -> str:
        """Expand the number of a recent session to the command that opens it; return other text unchanged."""
        from ebbtide.tui.view.greeting import session_by_number  # noqa: PLC0415  # deferred: behind the first paint

        controller = self._controller()
        if controller.session is None or controller.view.blocks:
            return text
        info = session_by_number(text, self._sessions)
        return f"/resume {info.id}" if info is not None else text


def from_home(root: Path) -> str:
    """The path as shells show it, with `~`."""
    home = Path.home()
    return str(root) if not root.is_relative_to(home) or root == home else f"~/{root.relative_to(home)}"


def _branch_and_sizes(root: Path, files: tuple[Path, ...]) -> tuple[str, tuple[tuple[str, int], ...]]:
    """The Git branch, and each file with its size, relative to the folder if it is in there."""
    from ebbtide.agent.input.instructions import branch_of  # noqa: PLC0415  # deferred: behind the first paint

    read = []
    for path in files:
        try:
            count = path.stat().st_size
        except OSError:
            continue  # it went meanwhile
        read.append((str(path.relative_to(root) if path.is_relative_to(root) else path), count))
    return branch_of(root), tuple(read)
