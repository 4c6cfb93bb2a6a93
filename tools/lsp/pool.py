"""The language servers of a session: which of them handle a file, and the problems an edit introduced. A server starts
with the first edit of a file in its language, or the first question about one."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ebbtide.tools.base import AppliedChange
from ebbtide.tools.files.paths import display
from ebbtide.tools.lsp.client import LanguageClient, LanguageServerError
from ebbtide.tools.lsp.diagnostics import Problem, in_order, lines_of
from ebbtide.tools.lsp.server import EditedText, LanguageServer, LanguageServerPhase
from ebbtide.tools.lsp.spec import LanguageServerSpec
from ebbtide.tools.outputs.new_problems import NewProblems

MAX_REPORTED_PROBLEMS = 10
"""Maximum number of problems reported with an edit."""
MAX_FILE_BYTES = 1_000_000
"""Maximum size in bytes of a file sent to servers."""
_BEHIND_WAIT_SHARE = 0.25
"""Fraction of the usual time to wait for a server that is still busy with earlier edits."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LanguageServerState:
    """The state of a server, for display."""

    name: str
    phase: LanguageServerPhase
    detail: str
    command: tuple[str, ...]


class LanguageServers:
    """The language servers of a session."""

    def __init__(
        self, root: Path, find: Callable[[str], Sequence[LanguageServerSpec]], logs: Path, seconds: float
    ) -> None:
        """`find` returns the servers for a file extension, and is called once for each. `logs`: folder for their
        output. `seconds`: how long an edit waits for diagnostics."""
        self._root = root
        self._find = find
        self._logs = logs
        self._seconds = seconds
        self._by_extension: dict[str, tuple[LanguageServer, ...]] = {}
        self._servers: dict[str, LanguageServer] = {}

    @property
    def states(self) -> tuple[LanguageServerState, ...]:
        """The servers that were needed so far."""
        return tuple(
            LanguageServerState(one.spec.name, one.phase, one.detail, one.spec.command)
            for one in self._servers.values()
        )

    async def servers_for(self, path: Path) -> tuple[LanguageServer, ...]:
        """Return the servers for a file, or none if it is outside the working folder."""
        if not path.is_relative_to(self._root):
            return ()
        extension = path.suffix.lower()
        if extension not in self._by_extension:
            specs = await asyncio.to_thread(self._find, extension)
            for spec in specs:
                log = self._logs / f"{re.sub(r'[^A-Za-z0-9_-]', '_', spec.name)}.log"
                self._servers.setdefault(spec.name, LanguageServer(spec, self._root, log))
            if not specs:
                return ()  # a server may still be approved
            self._by_extension[extension] = tuple(self._servers[spec.name] for spec in specs)
        return self._by_extension[extension]

    async def after_edit(self, made: Sequence[AppliedChange]) -> NewProblems | None:
        """Return the problems introduced by these changes, and by earlier ones if not yet reported. None if there are
        none, or no answer in time."""
        edits: dict[LanguageServer, dict[Path, EditedText]] = {}
        for change in made:
            before, after = _text_of(change.before), _text_of(change.after)
            is_readable = (before is None, after is None) == (change.before is None, change.after is None)
            if change.before == change.after or not is_readable:
                continue
            for server in await self.servers_for(change.path):
                edits.setdefault(server, {})[change.path] = EditedText(before, after)
        if not edits:
            return None
        await asyncio.gather(*(self._wait(server, of_it) for server, of_it in edits.items()))
        return self._new_problems(tuple(edits))

    async def _wait(self, server: LanguageServer, edits: Mapping[Path, EditedText]) -> None:
        """Wait for a server's diagnostics up to the time limit, or less if it has a backlog."""
        seconds = self._seconds * (_BEHIND_WAIT_SHARE if server.is_behind else 1)
        number = server.edit(edits)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await server.wait_for_diagnostics(number)

    def _new_problems(self, servers: Sequence[LanguageServer]) -> NewProblems | None:
        found: dict[str, list[Problem]] = {}
        for server in servers:
            for path, problems in server.documents.take_news().items():
                found.setdefault(display(path, self._root), []).extend(problems)
        every = in_order(found)
        return NewProblems(len(every), tuple(lines_of(every, MAX_REPORTED_PROBLEMS))) if every else None

    async def ask(self, server: LanguageServer, work: Callable[[LanguageClient], Awaitable[T]], seconds: float) -> T:
        """Return the result of work with a server, within a time limit. Raises `LanguageServerError` with the server's
        state."""
        try:
            async with asyncio.timeout(seconds):
                return await server.ask(work)
        except TimeoutError as error:
            why = (
                "it is still starting: ask again later" if server.phase == "starting" else "it does not answer in time"
            )
            raise LanguageServerError(f"{server.spec.name}: {why}") from error
        except LanguageServerError as error:
            raise LanguageServerError(f"{server.spec.name}: {error}") from error

    def known_problems(self) -> Mapping[Path, tuple[Problem, ...]]:
        """Return what the running servers have reported so far."""
        found: dict[Path, tuple[Problem, ...]] = {}
        for server in self._servers.values():
            for path in server.documents.paths:
                found[path] = (*found.get(path, ()), *server.documents.problems(path))
        return dict(sorted(found.items()))

    async def close(self) -> None:
        """Close all servers concurrently."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def _text_of(content: bytes | None) -> str | None:
    """Return the text to send to a server, or None if the file is missing, large or not UTF-8."""
    if content is None or len(content) > MAX_FILE_BYTES:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
