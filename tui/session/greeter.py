"""Collects the greeting for a new session once it is open."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from ebbtide.agent import input
from ebbtide.agent.errors import AgentError
from ebbtide.tui import view

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.config.settings import Settings
    from ebbtide.agent.records.session_lookup import SessionInfo
    from ebbtide.tui.session.controller import SessionController
    from ebbtide.tui.view.greeting import Greeting

_SECONDS_PER_DAY = 86_400


class GreetingCollector:
    """Collects the parts of the greeting. Until all parts are available, the greeting is shorter."""

    def __init__(self, get_controller: "Callable[[], SessionController]") -> None:
        self._get_controller = get_controller
        self.settings: Settings | None = None
        self.size_notice = ""
        """A notice about the terminal size, shown with the greeting. May be empty."""
        self._collected_session_id = ""
        self._sessions: tuple[SessionInfo, ...] = ()
        self._instruction_files: tuple[tuple[str, int], ...] = ()
        self._branch = ""

    async def collect(self) -> bool:
        """Collect the greeting for the open session. Returns whether it may have changed."""
        controller = self._get_controller()
        session = controller.session
        if session is None or controller.view.blocks or session.id == self._collected_session_id:
            return False
        self._collected_session_id = session.id
        sessions = controller.sessions
        try:
            recent_sessions = await sessions.recent_sessions(limit=view.greeting.MAX_LISTED_SESSIONS + 1)
        except AgentError:
            recent_sessions = ()  # the session list will report the error
        self._sessions = tuple(info for info in recent_sessions if info.id != session.id and info.messages)[
            : view.greeting.MAX_LISTED_SESSIONS
        ]
        self._branch, self._instruction_files = await asyncio.to_thread(
            _read_branch_and_file_sizes, session.working_folder, sessions.instruction_files()
        )
        return True

    def build_greeting(self) -> "Greeting | None":
        """Build the open session's greeting; None without a session."""
        controller = self._get_controller()
        session = controller.session
        if session is None:
            return None
        now = time()
        return view.greeting.Greeting(
            model=session.model,
            folder=path_with_tilde(session.working_folder),
            branch=self._branch,
            mode=session.mode,
            instruction_files=self._instruction_files,
            advice=(
                *view.greeting.build_model_choice_notes(session.model, self.settings),
                *([self.size_notice] if self.size_notice else []),
            ),
            sessions=() if controller.view.blocks else self._sessions,
            tip=view.greeting.tip_of_the_day(int(now) // _SECONDS_PER_DAY, len(self._sessions)),
            now=now,
        )

    def expand_session_number(self, text: str) -> str:
        """Replace the number of a recent session with the command that opens it. Other text is returned unchanged."""
        controller = self._get_controller()
        if controller.session is None or controller.view.blocks:
            return text
        info = view.greeting.session_by_number(text, self._sessions)
        return f"/resume {info.id}" if info is not None else text


def path_with_tilde(root: Path) -> str:
    """Shorten a path as shells do, with `~` for the home folder."""
    home = Path.home()
    return str(root) if not root.is_relative_to(home) or root == home else f"~/{root.relative_to(home)}"


def _read_branch_and_file_sizes(root: Path, files: tuple[Path, ...]) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Get the Git branch, and the size of each file. Paths in the folder are made relative to it."""
    files_with_sizes = []
    for path in files:
        try:
            byte_count = path.stat().st_size
        except OSError:
            continue  # deleted meanwhile
        files_with_sizes.append((str(path.relative_to(root) if path.is_relative_to(root) else path), byte_count))
    return input.instructions.branch_or_commit(root), tuple(files_with_sizes)
