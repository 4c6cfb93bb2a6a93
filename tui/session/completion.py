"""Completions for the prompt of the current session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tui.commands import COMMANDS
from ebbtide.tui.prompt.completion import PromptCompletion, candidates
from ebbtide.tui.prompt.files import ProjectFiles

if TYPE_CHECKING:  # a type only: sessions are loaded behind the first paint
    from ebbtide.agent.session import Session


COMMAND_NAMES = frozenset(command.name for command in COMMANDS)


class SessionPromptCompleter:
    """`session` returns the current session, or None."""

    def __init__(self, session: "Callable[[], Session | None]") -> None:
        self._session = session
        self._files: tuple[Path, ProjectFiles] | None = None
        """The file index of the last session's folder."""

    def candidates(self, text: str) -> Sequence[PromptCompletion]:
        """Commands, prompts and resources that complete the text."""
        session = self._session()
        running = session.servers if session is not None else None
        extensions = session.extensions if session is not None and text.startswith("/") else None
        named = extensions.usable(COMMAND_NAMES) if extensions is not None else ()
        return candidates(text, running.statuses() if running is not None else (), named)

    @property
    def files(self) -> ProjectFiles | None:
        """The file index of the session's folder."""
        session = self._session()
        if session is None:
            return None
        if self._files is None or self._files[0] != session.root:
            self._files = (session.root, ProjectFiles(session.root))
        return self._files[1]

    async def close(self) -> None:
        """Cancel a running file search."""
        if self._files is not None:
            await self._files[1].close()
