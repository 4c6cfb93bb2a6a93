"""Completions in the prompt for the current session."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.tui.prompt.completion import PromptCompletion, prompt_completions
from ebbtide.tui.prompt.files import ProjectFiles
from ebbtide.tui.slash_commands import COMMANDS

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.session import Session


COMMAND_NAMES = frozenset(command.name for command in COMMANDS)


class SessionPromptCompleter:
    """Completes the prompt for the current session. `get_session` returns it, or None if there is none."""

    def __init__(self, get_session: "Callable[[], Session | None]") -> None:
        self._get_session = get_session
        self._file_index: tuple[Path, ProjectFiles] | None = None
        """The last session's folder and its file index."""

    def candidates(self, text: str) -> Sequence[PromptCompletion]:
        """Get the commands, MCP prompts and resources that complete the text."""
        session = self._get_session()
        servers = session.servers if session is not None else None
        extensions = session.extensions if session is not None and text.startswith("/") else None
        extension_commands = extensions.usable_by_user(COMMAND_NAMES) if extensions is not None else ()
        return prompt_completions(text, servers.statuses() if servers is not None else (), extension_commands)

    @property
    def project_files(self) -> ProjectFiles | None:
        """The file index of the session's folder."""
        session = self._get_session()
        if session is None:
            return None
        if self._file_index is None or self._file_index[0] != session.working_folder:
            self._file_index = (session.working_folder, ProjectFiles(session.working_folder))
        return self._file_index[1]

    async def close(self) -> None:
        """Cancel a running file search."""
        if self._file_index is not None:
            await self._file_index[1].close()
