"""The language servers of a session: which of them handle a file, and which problems an edit introduced. A server is
started when a file in its language is first edited or queried."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.paths import display_path
from ebbtide.tools.integrations.lsp.client import LanguageClient, LanguageServerError
from ebbtide.tools.integrations.lsp.diagnostics import Problem, ordered_problems, problem_lines
from ebbtide.tools.integrations.lsp.server import EditedText, LanguageServer, LanguageServerPhase
from ebbtide.tools.integrations.lsp.spec import LanguageServerSpec
from ebbtide.tools.outputs.new_problems import NewProblems

MAX_REPORTED_PROBLEMS = 10
"""Maximum number of problems reported with an edit."""
MAX_FILE_BYTES = 1_000_000
"""Largest file that is sent to servers, in bytes."""
_BUSY_WAIT_FACTOR = 0.25
"""Factor applied to the waiting time if the server is still busy with earlier edits."""

T = TypeVar("T")


_STATE_TEXTS: Mapping[LanguageServerPhase, str] = {
    "idle": "stopped ({})",
    "starting": "starting",
    "ready": "running",
    "failed": "failed: {}",
}


class LanguageServers:
    """The language servers of a session."""

    def __init__(
        self, root: Path, find_specs: Callable[[str], Sequence[LanguageServerSpec]], logs: Path, wait_seconds: float
    ) -> None:
        """`find_specs` returns the servers for a file extension; it is called once per extension. `logs`: the folder
        for their error output. `wait_seconds`: how long an edit waits for diagnostics."""
        self._root = root
        self._find_specs = find_specs
        self._logs = logs
        self._wait_seconds = wait_seconds
        self._by_extension: dict[str, tuple[LanguageServer, ...]] = {}
        self._servers: dict[str, LanguageServer] = {}

    @property
    def states(self) -> Sequence[tuple[str, str]]:
        """The servers needed so far, each with a description of its state."""
        return [
            (server.spec.name, _STATE_TEXTS[server.phase].format(server.detail)) for server in self._servers.values()
        ]

    async def servers_for(self, path: Path) -> tuple[LanguageServer, ...]:
        """Return the servers for a file. Empty if it is outside the working folder."""
        if not path.is_relative_to(self._root):
            return ()
        extension = path.suffix.lower()
        if extension not in self._by_extension:
            specs = await asyncio.to_thread(self._find_specs, extension)
            for spec in specs:
                log = self._logs / f"{re.sub(r'[^A-Za-z0-9_-]', '_', spec.name)}.log"
                self._servers.setdefault(spec.name, LanguageServer(spec, self._root, log))
            if not specs:
                return ()  # not cached: a server may be approved later
            self._by_extension[extension] = tuple(self._servers[spec.name] for spec in specs)
        return self._by_extension[extension]

    async def problems_after_edit(self, changes: Sequence[AppliedChange]) -> NewProblems | None:
        """Return the problems introduced by these changes, and those from earlier changes that were not reported yet.
        None if there are none or if no server responds in time."""
        edits: dict[LanguageServer, dict[Path, EditedText]] = {}
        for change in changes:
            old_text, new_text = _decode_text(change.old_content), _decode_text(change.new_content)
            is_readable = (old_text is None, new_text is None) == (
                change.old_content is None,
                change.new_content is None,
            )
            if change.old_content == change.new_content or not is_readable:
                continue
            for server in await self.servers_for(change.path):
                edits.setdefault(server, {})[change.path] = EditedText(old_text, new_text)
        if not edits:
            return None
        await asyncio.gather(
            *(self._wait_for_diagnostics(server, server_edits) for server, server_edits in edits.items())
        )
        return self._new_problems(tuple(edits))

    async def _wait_for_diagnostics(self, server: LanguageServer, edits: Mapping[Path, EditedText]) -> None:
        """Wait for a server's diagnostics, up to the time limit. The limit is shorter if the server still has earlier
        edits to process."""
        seconds = self._wait_seconds * (_BUSY_WAIT_FACTOR if server.has_pending_edits else 1)
        edit_number = server.queue_edits(edits)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await server.wait_for_diagnostics(edit_number)

    def _new_problems(self, servers: Sequence[LanguageServer]) -> NewProblems | None:
        problems_by_path: dict[str, list[Problem]] = {}
        for server in servers:
            for path, problems in server.documents.take_new_problems().items():
                problems_by_path.setdefault(display_path(path, self._root), []).extend(problems)
        located_problems = ordered_problems(problems_by_path)
        return (
            NewProblems(len(located_problems), tuple(problem_lines(located_problems, MAX_REPORTED_PROBLEMS)))
            if located_problems
            else None
        )

    async def run_with_client(
        self, server: LanguageServer, work: Callable[[LanguageClient], Awaitable[T]], seconds: float
    ) -> T:
        """Run `work` with a server and return its result. `seconds`: the time limit. Raises `LanguageServerError`,
        which names the server and its state."""
        try:
            async with asyncio.timeout(seconds):
                return await server.run_with_client(work)
        except TimeoutError as error:
            reason = (
                "it is still starting: try again later" if server.phase == "starting" else "it did not answer in time"
            )
            raise LanguageServerError(f"{server.spec.name}: {reason}") from error
        except LanguageServerError as error:
            raise LanguageServerError(f"{server.spec.name}: {error}") from error

    def known_problems(self) -> Mapping[Path, tuple[Problem, ...]]:
        """Return the problems that the running servers have reported so far, by file."""
        problems_by_path: dict[Path, tuple[Problem, ...]] = {}
        for server in self._servers.values():
            for path in server.documents.paths_with_problems:
                problems_by_path[path] = (*problems_by_path.get(path, ()), *server.documents.problems(path))
        return dict(sorted(problems_by_path.items()))

    async def close(self) -> None:
        """Close all servers at the same time."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def _decode_text(content: bytes | None) -> str | None:
    """Return the text to send to a server; None if the file does not exist, is large or is not UTF-8."""
    if content is None or len(content) > MAX_FILE_BYTES:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
