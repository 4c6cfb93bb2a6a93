"""The language servers of one session: which of them a file concerns, what an edit brought, and their end. None is
started before the first edit of a file of its language, or the first question about one."""

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
"""Problems that are told with an edit."""
MAX_FILE_BYTES = 1_000_000
"""Bytes of a file that servers are told of."""
_BEHIND_WAIT_SHARE = 0.25
"""Share of the usual time for which a server is waited for that is not done with earlier edits."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LanguageServerState:
    """How it stands with a server, for people."""

    name: str
    phase: LanguageServerPhase
    detail: str
    command: tuple[str, ...]


class LanguageServers:
    """Those of a session."""

    def __init__(
        self, root: Path, find: Callable[[str], Sequence[LanguageServerSpec]], logs: Path, seconds: float
    ) -> None:
        """`find`: the servers for files with an extension, asked once for each. `logs`: the folder for what they print.
        `seconds`: how long an edit waits for what it brought."""
        self._root = root
        self._find = find
        self._logs = logs
        self._seconds = seconds
        self._by_extension: dict[str, tuple[LanguageServer, ...]] = {}
        self._servers: dict[str, LanguageServer] = {}

    @property
    def states(self) -> tuple[LanguageServerState, ...]:
        """Those that were needed so far."""
        return tuple(
            LanguageServerState(one.spec.name, one.phase, one.detail, one.spec.command)
            for one in self._servers.values()
        )

    async def servers_for(self, path: Path) -> tuple[LanguageServer, ...]:
        """Those that a file concerns; none for one that does not lie in the working folder."""
        if not path.is_relative_to(self._root):
            return ()
        extension = path.suffix.lower()
        if extension not in self._by_extension:
            specs = await asyncio.to_thread(self._find, extension)
            for spec in specs:
                log = self._logs / f"{re.sub(r'[^A-Za-z0-9_-]', '_', spec.name)}.log"
                self._servers.setdefault(spec.name, LanguageServer(spec, self._root, log))
            if not specs:
                return ()  # one may be approved yet
            self._by_extension[extension] = tuple(self._servers[spec.name] for spec in specs)
        return self._by_extension[extension]

    async def after_edit(self, made: Sequence[AppliedChange]) -> NewProblems | None:
        """What is wrong since these changes, and since earlier ones if that was not told, for the model; None where
        nothing is, or nobody can tell in time."""
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
        """Waits for a server no longer than agreed, and less long for one that has more to do than this."""
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
        """What a server answers to work in time. Raises `LanguageServerError`, which says how it stands with it."""
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
        """What the servers that run have said of files so far."""
        found: dict[Path, tuple[Problem, ...]] = {}
        for server in self._servers.values():
            for path in server.documents.paths:
                found[path] = (*found.get(path, ()), *server.documents.problems(path))
        return dict(sorted(found.items()))

    async def close(self) -> None:
        """Ends them all, side by side."""
        await asyncio.gather(*(server.close() for server in self._servers.values()))


def _text_of(content: bytes | None) -> str | None:
    """The text that a server is told; None where there is no file, or one that is large or not in UTF-8."""
    if content is None or len(content) > MAX_FILE_BYTES:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
